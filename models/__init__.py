"""p3VAE, its rivals and their inference, on tensors and plain dataclasses."""
