"""Semi-supervised VAEs: the published p3VAE and its two relatives."""
