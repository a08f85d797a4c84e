"""Baselines of land-cover classification. A module here is a model that can be trained."""
