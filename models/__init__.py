"""p3VAE, its baselines and their inference, on tensors and plain dataclasses."""
