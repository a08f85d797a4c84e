"""The background of a scene: its spectra without methane, and how they vary."""
