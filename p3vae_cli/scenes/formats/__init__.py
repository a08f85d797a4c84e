"""Readers, one module per product family."""
