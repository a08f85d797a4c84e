"""The paper: its tables, its pendulum, p3VAE as published, and the models it is compared with.

The product reaches this package through the registry of models and the command `reproduce` only.
"""
