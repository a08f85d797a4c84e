"""Methane enhancement of radiance spectra: p3VAE, matched filters, optimal estimation, plumes."""
