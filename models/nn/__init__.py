"""Network parts, losses, latent distributions and the trainer that all models share."""
