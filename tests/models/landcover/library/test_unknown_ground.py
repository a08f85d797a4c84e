"""Ground unlike any labelled pixel: told by the way in which labelled pixels differ among themselves."""

import numpy as np
import torch

from p3vae.models.landcover.model import load_model, save_model
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import TrainingSet, TrainingSettings
from tests.models.landcover.toy_ground import BANDS, GRASS, LEGEND, LIGHT, ROAD, ROOF, WAVE, lit

DRY_GRASS = 0.06 + 0.45 * (1 - np.exp(-(WAVE - 400) / 350)) * np.exp(-np.clip(WAVE - 1250, 0, None) / 900)
SAMPLES = 90


def grass(dryness: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    material = GRASS + dryness[:, None] * (DRY_GRASS - GRASS)
    return np.concatenate([lit(one, 1, rng, flat=True) for one in material])


def test_dry_grass_is_grass_where_labelled_grass_is_more_or_less_green(tmp_path):
    rng = np.random.default_rng(0)
    green = grass(np.abs(rng.normal(0, 0.1, SAMPLES)), rng)
    spectra = np.concatenate([green, *(lit(material, SAMPLES, rng, flat=True) for material in (ROOF, ROAD))])
    index = np.repeat(np.arange(3), SAMPLES)
    data = TrainingSet(spectra, index, index * 10 + np.arange(len(index)) % 3, spectra[:0])
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(epochs=2, seed=1))
    save_model(tmp_path / "model", model)
    strange = grass(np.ones(100), rng)
    loaded = load_model(tmp_path / "model")
    assert model.estimator.spare[0].directions is not None
    assert loaded.estimator.spare[0].directions == model.estimator.spare[0].directions
    for one in (model, loaded):
        found = one.predict(strange, LIGHT)
        assert (found.class_id == 1).mean() > 0.9
        assert (one.predict(strange, LIGHT, method="classifier").class_id == 1).mean() > 0.9
        assert (found.misfit > 1).mean() > 0.9  # and is still told to be unlike anything known
        assert abs(np.median(found.irradiance) - np.cos(np.radians(30.0))) < 0.12

    parts = [model.predict(part, LIGHT).irradiance for part in np.split(strange, (1, 3, 40, 41))]
    np.testing.assert_array_equal(np.concatenate(parts), model.predict(strange, LIGHT).irradiance)

    alone = model.estimator.solver(LIGHT).solve(torch.from_numpy(strange))
    assert (alone.log_evidence.argmax(1) == 1).float().mean() > 0.9  # a roof, if it must be something known


def test_scatter_is_given_noise_that_does_not_shrink_in_shadow():
    """The ground has noise of 0.003; half a thousandth is what scatter begins with."""
    rng = np.random.default_rng(0)
    spectra = np.concatenate([lit(material, SAMPLES, rng, flat=True) for material in (GRASS, ROOF, ROAD)])
    index = np.repeat(np.arange(3), SAMPLES)
    data = TrainingSet(spectra, index, index * 10 + np.arange(len(index)) % 3, spectra[:0])
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(epochs=1, seed=1))
    assert model.estimator.spare[1].floor > 0.0005
