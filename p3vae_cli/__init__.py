"""Files, screens and commands around the models."""
