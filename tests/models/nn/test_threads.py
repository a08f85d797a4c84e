"""Training leaves the cores of a busy machine alone."""

from __future__ import annotations

import numpy as np
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import ClassLegend, TrainingSet, TrainingSettings
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.spectral_response import Bands


def test_training_uses_one_thread_of_every_library_and_gives_the_others_back():
    bands = Bands.from_centres(np.linspace(450.0, 900.0, 6))
    rng = np.random.default_rng(0)
    truth = np.arange(60) % 2
    spectra = (0.2 + 0.2 * truth[:, None] + 0.01 * rng.standard_normal((60, 6))).astype(np.float32)
    data = TrainingSet(spectra, truth, np.arange(60) % 10, spectra)
    legend = ClassLegend((1, 2), ("dark", "bright"), ((0, 0, 0), (255, 255, 255)))
    seen = []

    def look(_):
        seen.append({torch.get_num_threads(), *(library["num_threads"] for library in threadpool_info())})

    with threadpool_limits(2):
        torch.set_num_threads(2)
        light = clear_sky_irradiance(bands, 40.0)
        train_land_cover(data, bands, light, legend, TrainingSettings(), on_epoch=look)
        assert torch.get_num_threads() == 2
        torch.set_num_threads(1)
    assert seen and all(threads == {1} for threads in seen)
