"""One HTML page about the products of a folder, complete in itself."""
