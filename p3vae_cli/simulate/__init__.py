"""Synthetic scenes in the layouts of real products."""
