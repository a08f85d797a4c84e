"""Land cover as published: p3VAE, its two relatives, and the networks it is compared with."""
