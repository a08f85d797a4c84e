"""Values that are written in two places are the same."""

from __future__ import annotations

import inspect

from p3vae.cli.commands.classify import classify
from p3vae.cli.landcover.irradiance import LightSettings
from p3vae.physics.illumination import AEROSOL_OPTICAL_DEPTH, clear_sky_irradiance


def test_the_assumed_aerosol_is_the_same_in_command_options_and_model():
    option = next(parameter for parameter in classify.params if "--aod" in parameter.opts)
    model = inspect.signature(clear_sky_irradiance).parameters["aerosol_optical_depth"]
    defaults = {option.default, LightSettings().aerosol_optical_depth, model.default}
    assert defaults == {AEROSOL_OPTICAL_DEPTH}
