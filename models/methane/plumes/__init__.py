"""Plumes in a methane map: which pixels, how much gas, how sure."""
