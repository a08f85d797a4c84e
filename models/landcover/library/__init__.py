"""The default p3VAE: a library of endmember spectra with an exact posterior."""
