"""A scene mapped to files: tile by tile, one scene or many, here or on a cluster."""
