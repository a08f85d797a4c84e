"""One map: its grid, its values, its file, and the polygons made of it."""
