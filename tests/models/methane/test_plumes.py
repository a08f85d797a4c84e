"""Plumes in maps: which are found, what they weigh, where they come from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from p3vae.models.methane.plumes.clusters import FoundPlumes, count_false_alarms, find_plumes
from p3vae.models.methane.plumes.mass import ABSORPTION_ERROR, Wind, list_plumes


def labels_of(ppm_m: np.ndarray, std: np.ndarray, valid: np.ndarray) -> np.ndarray:
    return find_plumes(ppm_m, std, valid).labels


def synthetic_map(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = np.zeros((60, 80))
    truth[10:20, 10:20] = 3000.0
    truth[40:46, 50:60] = 2000.0
    return truth, truth + 200.0 * rng.standard_normal(truth.shape)


def test_two_plumes_are_found_with_their_mass_and_none_in_the_flipped_map():
    truth, seen = synthetic_map()
    valid = np.ones(truth.shape, bool)
    std = np.full(seen.shape, 200.0)
    labels = labels_of(seen, std, valid)
    found, real = labels > 0, truth > 0
    assert labels.max() == 2
    assert 2 * (found & real).sum() / (found.sum() + real.sum()) > 0.85
    assert count_false_alarms(seen, std, valid) == 0
    first = list_plumes(seen, std, valid, find_plumes(seen, std, valid), 900.0, Wind(4.0))[0]
    assert first.mass.kg == pytest.approx(100 * 3000.0 * 900.0 * 7.16e-7, rel=0.05)
    alone = 200.0 * np.sqrt(first.pixels) * 900.0 * 7.16e-7
    assert np.hypot(first.mass.noise_kg, first.mass.background_kg) == pytest.approx(alone, rel=0.3)
    assert first.probability > 0.99 and not first.touches_edge
    assert first.emission is not None
    expected = 3600 * (0.34 * 4 + 0.44) * first.mass.kg / np.sqrt(first.area_m2)
    assert first.emission.kg_per_hour == pytest.approx(expected)


def test_a_hole_as_deep_as_a_plume_is_a_false_alarm_unless_the_map_knows_no_negative_values():
    truth, seen = synthetic_map()
    std, valid = np.full(seen.shape, 200.0), np.ones(truth.shape, bool)
    assert count_false_alarms(-seen, std, valid) == 2
    assert count_false_alarms(np.maximum(-seen, 0.0), std, valid) is None


def test_masses_are_left_out_where_nobody_knows_the_size_of_a_pixel():
    truth, seen = synthetic_map()
    std, valid = np.full(seen.shape, 200.0), np.ones(truth.shape, bool)
    first = list_plumes(seen, std, valid, find_plumes(seen, std, valid), None, Wind(4.0))[0]
    assert (first.area_m2, first.mass, first.emission) == (None, None, None)
    assert first.peak_ppm_m > 2500.0


def test_the_mass_is_as_uncertain_as_errors_that_neighbours_share_make_it():
    """Errors of 100 ppm m, half of their variance smooth over some pixels: sums over 12 x 12 scatter more."""

    def errors(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        smooth = ndimage.gaussian_filter(rng.standard_normal((160, 160)), 3.0, mode="wrap")
        return 70.7 * (smooth / smooth.std() + rng.standard_normal(smooth.shape))

    sums = [errors(seed)[60:72, 60:72].sum() for seed in range(10, 210)]
    labels = np.zeros((160, 160), np.int32)
    labels[60:72, 60:72] = 1
    std, valid = np.full(labels.shape, 100.0), np.ones(labels.shape, bool)
    plumes = FoundPlumes(labels, np.zeros(1), (None,))
    mass = list_plumes(errors(0) + 3000.0 * labels, std, valid, plumes, 900.0)[0].mass
    found = np.hypot(mass.noise_kg, mass.background_kg)
    assert found == pytest.approx(np.std(sums) * 900.0 * 7.16e-7, rel=0.35)
    assert found > 3 * 100.0 * 12 * 900.0 * 7.16e-7


def test_noise_alone_holds_no_plume():
    noise_map = 300.0 * np.random.default_rng(3).standard_normal((100, 100))
    assert labels_of(noise_map, np.full((100, 100), 300.0), np.ones((100, 100), bool)).max() == 0


def test_invalid_pixels_are_no_plume():
    _, seen = synthetic_map()
    seen[0:12, 60:80] = np.nan
    labels = labels_of(np.nan_to_num(seen, nan=1e6), np.full(seen.shape, 200.0), np.isfinite(seen))
    assert (labels[0:12, 60:80] == 0).all()
    assert labels_of(seen, np.ones(seen.shape), np.zeros(seen.shape, bool)).max() == 0


def test_a_map_of_mostly_zeros_holds_only_its_plume():
    """A sparse filter silences most of the ground; the specks it leaves are no plumes."""
    rng = np.random.default_rng(0)
    seen = np.where(rng.random((80, 90)) < 0.35, np.abs(rng.standard_normal((80, 90))), 0.0)
    seen[30:40, 40:52] += 40.0
    labels = labels_of(seen, np.ones(seen.shape), np.ones(seen.shape, bool))
    assert labels.max() == 1
    assert (labels[30:40, 40:52] > 0).mean() > 0.95 and (labels > 0).sum() < 200
    assert labels_of(np.zeros((20, 20)), np.ones((20, 20)), np.ones((20, 20), bool)).max() == 0


def test_the_faint_rim_belongs_to_the_plume_and_keeps_its_mass():
    """A plume that fades below the noise of a pixel: the mask holds nearly all its mass, and little else."""
    south, east = np.mgrid[0:120, 0:120] - 60.0
    truth = 4000.0 * np.exp(-(south**2 + east**2) / (2 * 12.0**2))
    seen = truth + 500.0 * np.random.default_rng(4).standard_normal(truth.shape)
    std, valid = np.full(truth.shape, 500.0), np.ones(truth.shape, bool)
    labels = labels_of(seen, std, valid)
    assert labels.max() == 1
    assert seen[labels > 0].sum() == pytest.approx(truth.sum(), rel=0.08)
    assert truth[labels > 0].min() < 400.0
    assert (truth[labels > 0] < 20.0).mean() < 0.1


def drifting_plume(row: float, col: float, south_per_east: float, peak: float) -> np.ndarray:
    """A plume that leaves (row, col) eastwards, widening and thinning out over 60 pixels."""
    south, east = np.mgrid[0:120, 0:140].astype(float)
    along = east - col
    across = south - row - south_per_east * along
    width = 2.0 + 0.05 * np.maximum(along, 0.0)
    body = np.exp(-0.5 * (across / width) ** 2) * np.clip(1.0 - along / 60.0, 0.0, 1.0) * (2.0 / width)
    return peak * np.where(along < 0, np.exp(-0.5 * (across**2 + along**2) / 4.0), body)


def test_a_plume_weaker_than_the_noise_of_two_pixels_is_found_by_its_shape():
    """Peak of 2.5 standard deviations of a pixel: not one pixel stands out, all together do."""
    truth = drifting_plume(60, 40, 0.0, 2000.0)
    std, valid = np.full(truth.shape, 800.0), np.ones(truth.shape, bool)
    for seed in range(5):
        noise = 800.0 * np.random.default_rng(seed).standard_normal(truth.shape)
        found = find_plumes(truth + noise, std, valid)
        assert found.count == 1 and truth[found.labels == 1].max() > 1500.0
        assert find_plumes(noise, std, valid).count == 0


def test_errors_that_neighbours_share_are_no_plumes():
    """Patches of ground with errors of their own, as real ground has: no false plume in ten scenes."""
    false = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        patches = np.kron(rng.standard_normal((15, 15)), np.ones((8, 8)))
        seen = 300.0 * patches + 500.0 * rng.standard_normal(patches.shape)
        false += find_plumes(seen, np.full(seen.shape, 500.0), np.ones(seen.shape, bool)).count
    assert false <= 1


def test_source_direction_and_edge_of_a_drifting_plume():
    seen = drifting_plume(40, 50, 0.4, 20_000.0)
    seen += 200.0 * np.random.default_rng(0).standard_normal(seen.shape)
    std, valid = np.full(seen.shape, 200.0), np.ones(seen.shape, bool)
    plume = list_plumes(seen, std, valid, find_plumes(seen, std, valid), 900.0)[0]
    assert np.hypot(plume.source[0] - 40, plume.source[1] - 50) < 4.0
    south, east = np.subtract(plume.centroid, plume.source)
    assert plume.has_direction and np.degrees(np.arctan2(south, east)) == pytest.approx(21.8, abs=8.0)
    assert not plume.touches_edge
    valid[:, 80:] = False
    cut = list_plumes(seen, std, valid, find_plumes(seen, std, valid), 900.0)[0]
    assert cut.touches_edge


def test_the_budget_of_a_mass_adds_up():
    _, seen = synthetic_map()
    std, valid = np.full(seen.shape, 200.0), np.ones(seen.shape, bool)
    mass = list_plumes(seen, std, valid, find_plumes(seen, std, valid), 900.0)[0].mass
    parts = (mass.noise_kg, mass.background_kg, mass.mask_kg, mass.absorption_kg)
    assert mass.std_kg == pytest.approx(np.sqrt(np.square(parts).sum()))
    assert mass.absorption_kg == pytest.approx(ABSORPTION_ERROR * mass.kg)


def test_peak_mean_and_centroid_are_those_of_the_pixels_of_a_plume():
    labels = np.zeros((30, 40), np.int32)
    labels[10:14, 20:26] = 1
    ppm_m = np.where(labels > 0, 1000.0, 0.0)
    ppm_m[11, 24], ppm_m[13, 20] = 4000.0, -500.0
    std, valid = np.full(labels.shape, 100.0), np.ones(labels.shape, bool)
    plume = list_plumes(ppm_m, std, valid, FoundPlumes(labels, np.array([0.25]), (None,)), 900.0)[0]
    assert (plume.peak, plume.peak_ppm_m, plume.pixels) == ((11.0, 24.0), 4000.0, 24)
    assert plume.mean_ppm_m == pytest.approx((22 * 1000.0 + 4000.0 - 500.0) / 24)
    weight = np.maximum(ppm_m[10:14, 20:26], 0.0)  # what is negative has no place
    row, col = np.indices(weight.shape)
    centroid = (10 + (weight * row).sum() / weight.sum(), 20 + (weight * col).sum() / weight.sum())
    assert plume.centroid == pytest.approx(centroid)
    assert plume.area_m2 == 24 * 900.0 and plume.probability == pytest.approx(1 / 1.25)
