"""Seeded hostile input for every reader: `make fuzz`, and a short version in the tests."""
