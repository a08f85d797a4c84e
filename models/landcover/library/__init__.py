"""The default land-cover estimator: a Gaussian generative model of spectra seen in unknown light."""
