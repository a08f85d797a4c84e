"""What each part of the default estimator is for, on ground that needs it; and the smallest training sets."""

import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch

from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import (
    ClassLegend,
    Surroundings,
    TrainingError,
    TrainingSet,
    TrainingSettings,
)
from p3vae.models.metrics import log_loss

sys.path.insert(0, str(Path(__file__).parents[1]))
from toy_ground import BANDS, GRASS, LEGEND, LIGHT, OTHER_ROAD, ROAD, ROOF, WAVE, lit

MATERIALS = (GRASS, ROOF, ROAD)
LIBRARY = "p3vae.models.landcover.library"


def ground(materials, each=60, seed=0, *, flat=True):
    """Spectra of classes, each a material or a list of them, in polygons of 15 pixels of one material."""
    rng = np.random.default_rng(seed)
    spectra, index, group = [], [], []
    for number, made_of in enumerate(materials):
        kinds = made_of if isinstance(made_of, list) else [made_of]
        for part, material in enumerate(kinds):
            count = each // len(kinds)
            spectra.append(lit(material, count, rng, flat=flat))
            index.append(np.full(count, number))
            group.append(1000 * number + 100 * part + np.arange(count) // 15)
    return np.concatenate(spectra), np.concatenate(index), np.concatenate(group)


def trained(materials=MATERIALS, unlabelled=None, legend=LEGEND, **settings):
    spectra, index, group = ground(materials)
    pool = ground(materials, 200, 1, flat=False)[0] if unlabelled is None else unlabelled
    data = TrainingSet(spectra, index, group, pool)
    return train_land_cover(data, BANDS, LIGHT, legend, TrainingSettings(seed=1, **settings))


def accuracy(model, spectra, index):
    return np.mean(model.predict(spectra, LIGHT).class_id == 1 + index)


def test_a_class_may_have_two_materials():
    mixed = (GRASS, ROOF, [ROAD, ROAD + 0.6 * (GRASS - ROAD), ROAD + 0.6 * (ROOF - ROAD)])
    test, index, _ = ground(mixed, 300, 5, flat=False)
    several = accuracy(trained(mixed), test, index)
    with patch(f"{LIBRARY}.endmembers._ENDMEMBERS", 1):
        one = accuracy(trained(mixed), test, index)
    assert several > 0.9 and several > one + 0.02


def test_class_priors_come_from_labels_or_from_the_scene():
    rng = np.random.default_rng(3)
    pool = np.concatenate(
        [lit(m, n, rng, flat=False) for m, n in zip(MATERIALS, (700, 200, 100), strict=True)]
    )
    scene = trained(unlabelled=pool, class_prior="scene").estimator.class_prior
    np.testing.assert_allclose(scene, (0.7, 0.2, 0.1), atol=0.03)
    spectra, index, group = ground(MATERIALS)
    fewer = (index > 0) | (np.arange(len(index)) < 30)
    data = TrainingSet(spectra[fewer], index[fewer], group[fewer], pool)
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(class_prior="labels"))
    np.testing.assert_allclose(model.estimator.class_prior, (0.2, 0.4, 0.4))


def test_light_of_neighbours_is_no_sun():
    """Shadow that sunlit neighbours brighten by a tenth: z is 0, and its interval says so."""
    rng = np.random.default_rng(7)
    index = rng.integers(0, 3, 600)
    around = rng.uniform(0, 0.12, (600, 1)) * np.mean(MATERIALS, 0)
    seen = (0.7 * LIGHT.diffuse_ratio + around) * np.stack(MATERIALS)[index]
    seen = (seen + 0.001 * rng.standard_normal(seen.shape)).astype(np.float32)

    def cover() -> float:
        found = trained().predict(seen, LIGHT)
        return float(np.mean(found.irradiance <= 1.96 * found.irradiance_std))

    known = cover()
    with patch(f"{LIBRARY}.decoder._ADJACENCY_STD", 0.0):
        unknown = cover()
    assert known > 0.85 and known > unknown + 0.1


WAVES = np.cos(np.arange(1, 6)[:, None] * np.linspace(0, np.pi, len(BANDS)))


def test_smooth_deviations_are_expected():
    rng = np.random.default_rng(8)
    materials = (GRASS, ROOF, [ROAD, OTHER_ROAD, (ROAD + OTHER_ROAD) / 2])
    test, index, _ = ground(materials, 300, 6, flat=False)
    test = (test * (1 + 0.03 * rng.standard_normal((len(test), 3)) @ WAVES[:3])).astype(np.float32)

    def loss() -> float:
        return log_loss(index, trained(materials).predict(test, LIGHT, want_probabilities=True).probabilities)

    expected = loss()
    with patch(f"{LIBRARY}.endmembers._SMOOTH_STD", 0.0):
        assert expected < 0.7 * loss()


def test_confidence_is_that_of_new_polygons_not_of_pixels():
    """Every polygon is a material of its own: those held out show how far the others can be trusted."""
    rng = np.random.default_rng(2)

    def polygons(count: int, each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        own = np.repeat(MATERIALS, count, axis=0) * np.exp(0.2 * rng.standard_normal((3 * count, 5)) @ WAVES)
        spectra = np.concatenate([lit(material, each, rng, flat=True) for material in own])
        spectra += 0.02 * rng.standard_normal(spectra.shape).astype(np.float32)
        group = np.repeat(np.arange(3 * count), each)
        return spectra, group // count, group

    spectra, index, group = polygons(4, 40)
    data = TrainingSet(spectra, index, group, spectra[:0])
    test, truth, _ = polygons(60, 5)

    def loss() -> float:
        model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(seed=1))
        return log_loss(truth, model.predict(test, LIGHT, want_probabilities=True).probabilities)

    calibrated = loss()
    with patch(f"{LIBRARY}.calibration._TEMPERATURES", (1.0,)):
        assert calibrated < 0.5 * loss()


def test_what_was_never_learned_is_out_of_distribution_and_not_trusted():
    snow = 0.85 - 0.7 / (1 + np.exp(-(WAVE - 1300) / 60))
    model = trained()
    unlike = model.predict(lit(snow, 300, np.random.default_rng(9), flat=True), LIGHT)
    assert np.mean(unlike.misfit > 1) > 0.95
    assert unlike.confidence.mean() < 0.8
    test, _, _ = ground(MATERIALS, 300, 5, flat=False)
    assert np.mean(model.predict(test, LIGHT).misfit > 1) < 0.1


def test_confidence_falls_with_the_distance_from_all_labels():
    snow = 0.85 - 0.7 / (1 + np.exp(-(WAVE - 1300) / 60))
    spectra = lit(snow, 300, np.random.default_rng(9), flat=True)
    aware = trained().predict(spectra, LIGHT).confidence.mean()
    with patch(f"{LIBRARY}.calibration._IN_DISTRIBUTION", 1.0):
        model = trained()
    sure = replace(model, estimator=replace(model.estimator, ood_threshold=1e9))
    assert aware < sure.predict(spectra, LIGHT).confidence.mean() - 0.1


def with_gate(value):
    """Every pixel lit as the labels are (1), or none (0)."""
    return patch(f"{LIBRARY}.mixture.interpolated", lambda table, sun, sky: torch.full_like(sun, value))


def test_light_decides_between_classifier_and_physics():
    """Two asphalts differ in brightness alone: known light shows it. Shadow does not, but for shape."""
    materials = (GRASS, ROAD, 0.9 * ROAD)
    model = trained(materials)
    flat, index, _ = ground(materials, 300, 5, flat=True)
    shadow, in_shadow, _ = ground((GRASS, ROOF, ROAD), 300, 6, flat=False)
    other = trained()
    both = accuracy(model, flat, index), accuracy(other, shadow, in_shadow)
    with with_gate(0.0):
        physics = accuracy(model, flat, index)
    with with_gate(1.0):
        classifier = accuracy(other, shadow, in_shadow)
    assert both[0] > physics + 0.05 and both[1] > classifier + 0.05 and min(both) > 0.97


def test_known_light_is_that_of_the_labels():
    model, rng = trained(), np.random.default_rng(4)
    flat = model.predict(lit(ROOF, 300, rng, flat=True), LIGHT).known_light
    shadow = model.predict((0.6 * LIGHT.diffuse_ratio * ROOF)[None].astype(np.float32), LIGHT).known_light
    assert flat.mean() > 0.85 and shadow[0] < 0.05


@pytest.mark.parametrize("sun", [0.0, 0.45])
def test_labels_all_in_shadow_or_on_one_slope_know_that_light(sun):
    def seen(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        index = np.repeat(np.arange(3), count)
        spectra = (sun * LIGHT.direct_ratio + 0.7 * LIGHT.diffuse_ratio) * np.stack(MATERIALS)[index]
        return (spectra + 0.001 * rng.standard_normal(spectra.shape)).astype(np.float32), index

    spectra, index = seen(60, 0)
    data = TrainingSet(spectra, index, np.arange(180) // 15, spectra[:0])
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(seed=1))
    test, truth = seen(100, 1)
    assert model.predict(test, LIGHT).known_light.mean() > 0.6
    assert accuracy(model, test, truth) > 0.97


def test_a_class_only_seen_in_shadow_is_found_there_and_spares_the_others():
    rng = np.random.default_rng(0)
    shadow = 0.7 * LIGHT.diffuse_ratio * ROAD + 0.001 * rng.standard_normal((60, len(BANDS)))
    spectra = np.concatenate([lit(GRASS, 60, rng, flat=True), lit(ROOF, 60, rng, flat=True), shadow])
    index = np.repeat(np.arange(3), 60)
    data = TrainingSet(
        spectra.astype(np.float32), index, np.arange(180) // 15, spectra[:0].astype(np.float32)
    )
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(seed=1))
    test, truth, _ = ground(MATERIALS[:2], 200, 5, flat=False)
    assert accuracy(model, test, truth) > 0.9
    dark = 0.7 * LIGHT.diffuse_ratio * ROAD + 0.001 * rng.standard_normal((60, len(BANDS)))
    assert np.mean(model.predict(dark.astype(np.float32), LIGHT).class_id == 3) > 0.9


def test_shape_counts_where_polygons_differ_in_brightness():
    rng = np.random.default_rng(5)

    def polygons(count: int, each: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group = np.repeat(np.arange(3 * count), each)
        level = np.exp(0.4 * rng.standard_normal(3 * count))[group, None]
        index = group // count
        spectra = level * np.stack([ROAD, OTHER_ROAD, 0.93 * ROAD + 0.07 * ROOF])[index]
        return (spectra + 0.01 * rng.standard_normal(spectra.shape)).astype(np.float32), index, group

    spectra, index, group = polygons(2, 30)
    data = TrainingSet(spectra, index, group, spectra[:0])
    test, truth, _ = polygons(40, 5)

    def score() -> float:
        with with_gate(1.0):
            model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(seed=1))
            return accuracy(model, test, truth)

    both = score()
    with patch(f"{LIBRARY}.classifier._rms", lambda spectra: torch.ones(len(spectra), 1)):
        assert both > score() + 0.04


def field(patch_size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A noisy image of square patches of one class each, (48, 48, bands), and its classes."""
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 3, (48 // patch_size + 1,) * 2)
    truth = np.kron(coarse, np.ones((patch_size, patch_size), int))[:48, :48]
    image = np.stack([ROAD, OTHER_ROAD, 0.9 * ROAD + 0.1 * ROOF])[truth]
    image = image + 0.03 * rng.standard_normal(image.shape)
    return image.astype(np.float32), truth


def from_image(image: np.ndarray, truth: np.ndarray, patch_size: int) -> TrainingSet:
    """Every third patch as a polygon, with the neighbours of its pixels."""
    row, col = np.indices(truth.shape)
    number = row // patch_size * 100 + col // patch_size
    chosen = np.random.default_rng(1).permutation(np.unique(number))[: len(np.unique(number)) // 3]
    row, col = np.nonzero(np.isin(number, chosen) & (row % 47 > 0) & (col % 47 > 0))
    index = np.stack([(row + i) * 48 + col + j for i in (-1, 0, 1) for j in (-1, 0, 1)], 1)
    around = Surroundings(image.reshape(-1, len(BANDS)), index)
    return TrainingSet(
        image[row, col], truth[row, col], number[row, col], image.reshape(-1, len(BANDS))[:0], around=around
    )


@pytest.mark.parametrize(("patch_size", "helps"), [(6, True), (1, False)])
def test_neighbours_count_where_held_out_polygons_say_so(patch_size, helps):
    image, truth = field(patch_size, 0)
    data = from_image(image, truth, patch_size)
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(seed=1))
    assert model.averages_neighbours == helps and model.halo == int(helps)
    test, expected = field(patch_size, 7)
    shown = model.predict_image(test, LIGHT).class_id.reshape(48, 48)
    alone = model.without_neighbours().predict_image(test, LIGHT).class_id.reshape(48, 48)
    if helps:
        assert np.mean(shown == 1 + expected) > np.mean(alone == 1 + expected) + 0.05
    else:
        np.testing.assert_array_equal(shown, alone)


def test_wrong_labels_are_named():
    spectra, index, group = ground(MATERIALS)
    wrong = group == 1001
    data = TrainingSet(spectra, np.where(wrong, 2, index), group, spectra[:0])
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings(seed=1))
    first = model.summary.doubtful[0]
    assert (first.group, first.label, first.likelier, first.pixels) == (1001, "road", "roof", 15)
    assert first.probability < 0.3
    assert trained().summary.doubtful == ()


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_a_pixel_does_not_depend_on_its_place_among_others(classes):
    """Whatever the number of classes: narrow matrix products have kernels of their own."""
    rng = np.random.default_rng(3)
    materials = [ROAD + 0.03 * k * (ROOF - ROAD) for k in range(classes)]
    spectra, index, group = ground(materials)
    names = ClassLegend(tuple(range(1, classes + 1)), tuple("abcde"[:classes]), ((1, 2, 3),) * classes)
    data = TrainingSet(spectra, index, group, spectra[:0])
    model = train_land_cover(data, BANDS, LIGHT, names, TrainingSettings(seed=1))
    test = (0.1 + 0.2 * rng.random((3000, len(BANDS)))).astype(np.float32)
    whole = vars(model.predict(test, LIGHT, want_probabilities=True))
    for start in (1, 333):
        part = vars(model.predict(test[start:], LIGHT, want_probabilities=True))
        for name, values in part.items():
            np.testing.assert_array_equal(values, whole[name][start:], err_msg=name)


def test_classes_with_the_same_spectra_are_a_coin_flip():
    found = trained((GRASS, ROAD, ROAD)).predict(ground((ROAD,), 300, 5)[0], LIGHT)
    assert np.all(found.class_id > 1)
    assert 0.5 <= found.confidence.mean() < 0.65


@pytest.mark.parametrize("each", [5, 8])
def test_few_pixels_in_one_polygon_per_class_train(each):
    spectra, index, _ = ground(MATERIALS, each)
    data = TrainingSet(spectra, index, index, spectra[:0])
    test, truth, _ = ground(MATERIALS, 60, 5)
    if each < 8:
        with pytest.raises(TrainingError, match="too few labelled pixels"):
            train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings())
        return
    model = train_land_cover(data, BANDS, LIGHT, LEGEND, TrainingSettings())
    assert all("only one polygon" in warning for warning in model.summary.warnings)
    assert accuracy(model, test, truth) > 0.95


def test_constant_and_dead_bands_do_no_harm():
    spectra, index, group = ground(MATERIALS)
    spectra[:, 3], spectra[:, 7] = 0.0, 0.25
    model = train_land_cover(
        TrainingSet(spectra, index, group, spectra), BANDS, LIGHT, LEGEND, TrainingSettings()
    )
    found = model.predict(spectra, LIGHT)
    assert np.isfinite(found.confidence).all() and np.isfinite(found.irradiance_std).all()
    assert np.mean(found.class_id == 1 + index) > 0.95


def test_a_hundred_classes_train():
    rng = np.random.default_rng(0)
    corners = rng.uniform(0.05, 0.6, (100, 8))
    own = np.stack([np.interp(np.linspace(0, 7, len(BANDS)), np.arange(8), row) for row in corners])
    index = np.repeat(np.arange(100), 8)
    spectra = (own[index] + 0.004 * rng.standard_normal((800, len(BANDS)))).astype(np.float32)
    names = ClassLegend(tuple(range(1, 101)), tuple(f"c{k}" for k in range(100)), ((1, 2, 3),) * 100)
    data = TrainingSet(spectra, index, np.arange(800) // 4, spectra[:0])
    model = train_land_cover(data, BANDS, LIGHT, names, TrainingSettings())
    assert model.summary.accuracy > 0.95
