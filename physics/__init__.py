"""Numbers, units and equations: no files, no training, no screens."""
