"""What unlabelled pixels add to a class: a material that no polygon shows."""

from dataclasses import replace

import numpy as np
import pytest

from p3vae.models.landcover.model import load_model, save_model
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import TrainingSet, TrainingSettings
from tests.models.landcover.toy_ground import BANDS, GRASS, LEGEND, LIGHT, OTHER_ROAD, ROAD, ROOF, WAVE, lit

QUICK = TrainingSettings(epochs=2, seed=1)


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
    spectra = model.estimator.latent_spectra()
    assert angle_deg(spectra[2], OTHER_ROAD) < 1.6
    assert angle_deg(spectra[2], ROAD) < 1.0
    save_model(tmp_path / "model", model)
    assert load_model(tmp_path / "model").summary == model.summary

    without = train_land_cover(scene, BANDS, LIGHT, LEGEND, replace(QUICK, adoption=False))
    assert without.summary.adopted == ()
    assert angle_deg(without.estimator.latent_spectra()[2], OTHER_ROAD) > 2.4

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
        assert model.summary.warnings == ()


def test_a_class_that_is_full_adopts_nothing(scene):
    model = train_land_cover(scene, BANDS, LIGHT, LEGEND, replace(QUICK, spectra_per_class=1))
    assert model.summary.adopted == ()
    assert [len(own) for own in model.estimator.latent_spectra()] == [1, 1, 1]


def test_a_material_of_no_class_is_not_adopted():
    strange = 0.25 + 0.15 * np.cos(WAVE / 60)
    rng = np.random.default_rng(3)
    pixels = [lit(material, 300, rng, flat=False) for material in (GRASS, ROOF, ROAD, strange)]
    model = train_land_cover(labelled(np.concatenate(pixels)), BANDS, LIGHT, LEGEND, QUICK)
    assert model.summary.adopted == ()
    assert any("label some of them" in warning for warning in model.summary.warnings)
