"""Towns whose slopes are those of their heights."""

from __future__ import annotations

import numpy as np
import pytest

from p3vae.physics.simulation.landscape import Landscape
from p3vae.physics.simulation.materials import material_index
from p3vae.physics.simulation.town import build_town


@pytest.fixture(scope="module")
def town() -> Landscape:
    return build_town(96, 100, np.random.default_rng(5))


def differences(town: Landscape, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Central difference of height per pixel along an axis, and where the surface is smooth there."""
    height = town.height.astype(np.float64)
    ahead = np.roll(height, -1, axis) - height
    behind = height - np.roll(height, 1, axis)
    inner = np.zeros(height.shape, bool)
    inner[1:-1, 1:-1] = True
    return (ahead + behind) / 2 * town.refinement, inner & (np.abs(ahead - behind) * town.refinement < 0.02)


def test_slopes_of_ground_and_roofs_are_the_gradient_of_the_height(town):
    solid = town.material != material_index("tree")
    for axis, slope, sign in ((1, town.slope_east, 1.0), (0, town.slope_north, -1.0)):
        gradient, smooth = differences(town, axis)
        checked = smooth & solid
        assert checked.mean() > 0.6
        error = np.abs(slope - sign * gradient)[checked]
        assert np.quantile(error, 0.99) < 0.02
        roofs = checked & (town.material == material_index("red tile"))
        assert roofs.sum() > 200 and np.quantile(np.abs(gradient[roofs]), 0.9) > 0.2


def test_crowns_are_lit_as_if_a_third_as_steep_as_they_are(town):
    """Leaves soften the effect of a crown's shape: 0.35 of the dome's slope near its top, and bounded."""
    crown = town.material == material_index("tree")
    for axis, slope, sign in ((1, town.slope_east, 1.0), (0, town.slope_north, -1.0)):
        gradient, _ = differences(town, axis)
        inner = crown & (np.abs(gradient) > 0.2) & (np.abs(gradient) < 0.6)
        assert inner.sum() > 100
        share = sign * slope[inner] / gradient[inner]
        assert np.quantile(share, 0.8) == pytest.approx(0.35, abs=0.05) and np.median(share) > 0.2
        assert np.abs(slope[crown]).max() < 0.35 * 1.5 + 0.15


def test_buildings_and_trees_stand_above_gentle_ground(town):
    ground = np.isin(town.material, [material_index(name) for name in ("worn asphalt", "grass", "dark loam")])
    steep = np.degrees(np.arctan(np.hypot(town.slope_east, town.slope_north)))
    assert steep[ground].max() < 8.0
    roofs = np.isin(
        town.material, [material_index(f"{name} tile") for name in ("red", "orange", "weathered")]
    )
    pitch = np.degrees(np.arctan(np.hypot(town.slope_east, town.slope_north)))[roofs]
    assert 21.9 < pitch.min() < pitch.max() < 42.1
    local = town.height[roofs].mean() - town.height[ground].mean()
    assert 3.0 < local < 15.0
