"""Network parts, losses and latent distributions of the published models."""
