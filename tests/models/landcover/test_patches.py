"""Patches: every labelled pixel is found again at its place, and images in memory can be learned from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p3vae.models.landcover.patches import PATCH_SIZE, connected_groups, joined, plan_patches
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import ClassLegend, TrainingError, TrainingSet, TrainingSettings
from p3vae.paper.landcover.fg_unet.train import LabelledImage, image_training_set
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.spectral_response import Bands

BANDS = Bands.from_centres(np.linspace(450.0, 2300.0, 6), np.full(6, 10.0))
LEGEND = ClassLegend((1, 2), ("dark", "bright"), ((0, 0, 0), (9, 9, 9)))


@settings(deadline=None)
@given(
    st.tuples(st.integers(1, 200), st.integers(1, 200)),
    st.integers(1, 60),
    st.integers(0, 9),
    st.integers(3, 30),
    st.integers(0, 9),
)
def test_labelled_pixels_lie_where_the_plan_says(shape, samples, unlabelled, most, seed):
    rng = np.random.default_rng(seed)
    row, col = rng.integers(shape[0], size=samples), rng.integers(shape[1], size=samples)
    classes = rng.integers(3, size=samples)
    plan = plan_patches(shape, row, col, classes, unlabelled=unlabelled, most=most, rng=rng)
    patch, inside = plan.place[:, 0], plan.place[:, 1:]
    np.testing.assert_array_equal(plan.corners[patch] + inside, np.stack([row, col], 1)[plan.kept])
    assert (inside < PATCH_SIZE).all()
    assert len(plan.corners) == len(np.unique(plan.corners, axis=0)) <= most
    assert (plan.corners < shape).all()
    assert len(plan.corners) - len(np.unique(patch)) <= unlabelled
    assert set(classes[plan.kept]) == set(classes)
    if most == 30 and shape[0] * shape[1] <= 25 * PATCH_SIZE**2:
        assert plan.kept.all() or len(np.unique(patch)) == most


def stripes(rng, rows=63, cols=50):
    """Two materials in stripes of nine pixels; one pixel in nine is labelled, in squares."""
    truth = np.broadcast_to((np.arange(rows) // 9 % 2)[:, None], (rows, cols))
    cube = np.where(truth[..., None], 0.25, 0.15) + rng.normal(0, 0.04, (rows, cols, 6))
    square = (np.arange(rows)[:, None] % 9 < 5) & (np.arange(cols) % 10 < 3)
    cube[rng.random((rows, cols)) < 0.05] = np.nan
    return cube.astype(np.float32), truth, np.where(square, truth, -1)


def test_images_in_memory_are_learned_and_mapped():
    rng = np.random.default_rng(0)
    cube, truth, labels = stripes(rng)
    data = image_training_set([LabelledImage(cube, labels)])
    assert data.patches is not None
    assert len(np.unique(data.group)) > 20
    np.testing.assert_array_equal(data.patches.images[tuple(data.patches.place.T)], data.spectra)
    light = clear_sky_irradiance(BANDS, 30.0)
    settings = TrainingSettings(model="fg-unet", epochs=25)
    model = train_land_cover(data, BANDS, light, LEGEND, settings)
    found = model.predict_image(cube, light)
    valid = np.isfinite(cube).all(-1)
    assert (found.class_id.reshape(truth.shape)[~valid] == 0).all()
    assert not model.predict_image(np.full_like(cube, np.nan), light).class_id.any()
    unseen = valid & (labels < 0)
    assert (found.class_id.reshape(truth.shape) - 1 == truth)[unseen].mean() > 0.9


def test_a_wide_border_of_nodata_is_not_learned_from():
    """Without it four of five patches hold nothing, and many a step would have nothing to learn."""
    cube, _, labels = stripes(np.random.default_rng(0))
    border = [(0, 190), (0, 60)]
    wide = LabelledImage(
        np.pad(cube, [*border, (0, 0)], constant_values=np.nan), np.pad(labels, border, constant_values=-1)
    )
    data, narrow = image_training_set([wide]), image_training_set([LabelledImage(cube, labels)])
    assert np.isfinite(data.patches.images).all(-1).any((1, 2)).all()
    np.testing.assert_array_equal(data.patches.images[tuple(data.patches.place.T)], data.spectra)
    np.testing.assert_array_equal(data.spectra, narrow.spectra)
    light, settings = clear_sky_irradiance(BANDS, 30.0), TrainingSettings(model="fg-unet", epochs=2)
    assert train_land_cover(data, BANDS, light, LEGEND, settings).summary.restarts == 0


def test_validation_labels_are_hidden_from_training():
    data = image_training_set([LabelledImage(*stripes(np.random.default_rng(1))[::2])])
    kept = np.isin(data.group, np.unique(data.group)[::4])
    shown = data.patches.label_images(data.class_index, ~kept)
    assert (shown >= 0).sum() == (~kept).sum()
    assert (shown[tuple(data.patches.place[kept].T)] == -1).all()


def test_spectra_without_images_are_refused():
    rng = np.random.default_rng(2)
    table = TrainingSet(
        rng.uniform(0.1, 0.3, (80, 6)).astype(np.float32), np.arange(80) % 2, np.arange(80) // 8,
        np.empty((0, 6), np.float32),
    )  # fmt: skip
    light = clear_sky_irradiance(BANDS, 30.0)
    with pytest.raises(TrainingError, match="patches"):
        train_land_cover(table, BANDS, light, LEGEND, TrainingSettings(model="fg-unet"))


def test_joined_patches_keep_their_samples():
    parts = [image_training_set([LabelledImage(*stripes(np.random.default_rng(n))[::2])]) for n in (3, 4)]
    both = joined([part.patches for part in parts])
    spectra = np.concatenate([part.spectra for part in parts])
    np.testing.assert_array_equal(both.images[tuple(both.place.T)], spectra)
    images = [LabelledImage(*stripes(np.random.default_rng(n))[::2]) for n in (3, 4)]
    together = image_training_set(images)
    np.testing.assert_array_equal(together.spectra, spectra)
    assert len(np.unique(together.group)) == sum(len(np.unique(part.group)) for part in parts)


def test_connected_pixels_of_one_class_are_one_group():
    image = np.array([[0, 0, -1, 1], [-1, -1, -1, 1], [0, -1, 1, -1]])
    groups = connected_groups(image)
    assert groups[0, 0] == groups[0, 1] != groups[2, 0]
    assert groups[0, 3] == groups[1, 3] == groups[2, 2]
    assert (groups[image < 0] == 0).all() and len(np.unique(groups)) == 4


def test_a_resumed_training_ends_like_one_that_was_never_stopped():
    data = image_training_set([LabelledImage(*stripes(np.random.default_rng(5))[::2])])
    light, states = clear_sky_irradiance(BANDS, 30.0), []
    settings = TrainingSettings(model="fg-unet", epochs=4)
    whole = train_land_cover(data, BANDS, light, LEGEND, settings, save_state=states.append)
    resumed = train_land_cover(data, BANDS, light, LEGEND, settings, resume_from=states[1])
    assert resumed.digest == whole.digest
    with pytest.raises(TrainingError, match="other data"):
        other = image_training_set([LabelledImage(*stripes(np.random.default_rng(6))[::2])])
        train_land_cover(other, BANDS, light, LEGEND, settings, resume_from=states[1])
