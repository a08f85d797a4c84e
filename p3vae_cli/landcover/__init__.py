"""From a reflectance scene to land cover and light, and the models for it."""
