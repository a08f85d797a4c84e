"""Everything that is written: georeferenced rasters, QGIS styles, manifests."""
