"""Hyperspectral scenes, whatever product they come in: see `opening.open_scene`."""
