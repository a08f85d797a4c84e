"""Rivals that p3VAE is measured against."""
