"""Training of networks, and how many threads it takes."""
