"""What unlabelled pixels add to a class: a material that no polygon shows."""

from dataclasses import replace

import numpy as np
import pytest

from p3vae.models.landcover import (
    ClassLegend,
    TrainingSet,
    TrainingSettings,
    load_model,
    save_model,
    train_land_cover,
)
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.spectral_response import Bands

BANDS = Bands.of(np.linspace(450.0, 2400.0, 40))
LIGHT = clear_sky_irradiance(BANDS, 30.0)
LEGEND = ClassLegend((1, 2, 3), ("grass", "roof", "road"), ((0, 160, 0), (200, 60, 0), (90, 90, 90)))
QUICK = TrainingSettings(epochs=2, seed=1)
WAVE = BANDS.wavelength_nm
GRASS = 0.05 + 0.4 / (1 + np.exp(-(WAVE - 720) / 20)) * np.exp(-np.clip(WAVE - 1100, 0, None) / 700)
ROOF = 0.08 + 0.35 * (1 - np.exp(-(WAVE - 400) / 500))
ROAD = 0.12 + 0.02 * np.sin(WAVE / 400)
OTHER_ROAD = ROAD + 0.025 * np.exp(-(((WAVE - 1300) / 250) ** 2))


def lit(material: np.ndarray, count: int, rng: np.random.Generator, *, flat: bool) -> np.ndarray:
    z = np.full(count, np.cos(np.radians(30.0))) if flat else rng.uniform(0.0, 1.0, count)
    w = np.ones(count) if flat else rng.uniform(0.4, 1.0, count)
    light = z[:, None] * LIGHT.direct_ratio + w[:, None] * LIGHT.diffuse_ratio
    spectra = light * material * (1 + 0.01 * rng.standard_normal((count, 1)))
    return (spectra + 0.003 * rng.standard_normal(spectra.shape)).astype(np.float32)


def labelled(unlabelled: np.ndarray) -> TrainingSet:
    rng = np.random.default_rng(0)
    spectra = np.concatenate([lit(material, 60, rng, flat=True) for material in (GRASS, ROOF, ROAD)])
    index = np.repeat(np.arange(3), 60)
    return TrainingSet(spectra, index, index * 10 + np.arange(180) % 3, unlabelled)


def angle_deg(spectra: np.ndarray, material: np.ndarray) -> float:
    """Smallest angle between any of the spectra and a material."""
    cosine = spectra @ material / np.linalg.norm(spectra, axis=1) / np.linalg.norm(material)
    return float(np.degrees(np.arccos(cosine.max())))


@pytest.fixture(scope="module")
def scene() -> TrainingSet:
    rng = np.random.default_rng(1)
    materials = (GRASS, ROOF, ROAD, OTHER_ROAD)
    return labelled(np.concatenate([lit(material, 300, rng, flat=False) for material in materials]))


def test_a_class_adopts_the_material_that_its_polygons_lack(scene, tmp_path):
    model = train_land_cover(scene, BANDS, LIGHT, LEGEND, QUICK)
    assert model.summary.adopted == ("road",)
    spectra = model.brain.latent_spectra()
    assert angle_deg(spectra[2], OTHER_ROAD) < 1.6
    assert angle_deg(spectra[2], ROAD) < 1.0
    save_model(tmp_path / "model", model)
    assert load_model(tmp_path / "model").summary == model.summary

    without = train_land_cover(scene, BANDS, LIGHT, LEGEND, replace(QUICK, adoption=False))
    assert without.summary.adopted == ()
    assert angle_deg(without.brain.latent_spectra()[2], OTHER_ROAD) > 2.4

    ground = lit(OTHER_ROAD, 300, np.random.default_rng(5), flat=False)
    assert (model.predict(ground, LIGHT).class_id == 3).mean() > 0.97
    misfit, before = (one.predict(ground, LIGHT).misfit for one in (model, without))
    assert np.median(misfit) < 0.8 * np.median(before)


def test_nothing_is_adopted_where_the_polygons_show_all_or_nothing_is_unlabelled():
    rng = np.random.default_rng(2)
    known = np.concatenate([lit(material, 300, rng, flat=False) for material in (GRASS, ROOF, ROAD)])
    for unlabelled in (known, known[:0]):
        model = train_land_cover(labelled(unlabelled), BANDS, LIGHT, LEGEND, QUICK)
        assert model.summary.adopted == ()


def test_a_class_that_is_full_adopts_nothing(scene):
    model = train_land_cover(scene, BANDS, LIGHT, LEGEND, replace(QUICK, spectra_per_class=1))
    assert model.summary.adopted == ()
    assert [len(own) for own in model.brain.latent_spectra()] == [1, 1, 1]


def test_a_material_of_no_class_is_not_adopted():
    strange = 0.25 + 0.15 * np.cos(WAVE / 60)
    rng = np.random.default_rng(3)
    pixels = [lit(material, 300, rng, flat=False) for material in (GRASS, ROOF, ROAD, strange)]
    model = train_land_cover(labelled(np.concatenate(pixels)), BANDS, LIGHT, LEGEND, QUICK)
    assert model.summary.adopted == ()
