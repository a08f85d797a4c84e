"""Land cover and irradiance of reflectance spectra.

Import from the submodules: `model` loads and predicts, `train` trains, `registry` names the estimators.
"""
