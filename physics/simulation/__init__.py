"""Synthetic scenes with exact truth: town, terrain, materials, plumes."""
