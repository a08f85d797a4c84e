"""Synthetic mountains: ridges and valleys with woods, meadows, soil, scree and tracks; no houses.

Lengths are in pixels of the scene: slopes are the same at any pixel size.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from p3vae.physics.simulation.landscape import Field, Landscape
from p3vae.physics.simulation.materials import material_index
from p3vae.physics.terrain import north_up, slopes

_LONGEST, _SHORTEST = 60.0, 3.0
"""Wavelengths of the relief [pixels]."""
_ROUGHNESS = 2.2
"""The amplitude of a wavelength grows with this power of it."""
_MEAN_SLOPE_DEG = 22.0
_PATCH = 4.0
"""Standard deviation of the blur that makes patches of ground [pixels]."""
_ROCK_SLOPE_DEG = 38.0
"""From about this slope on, ground is bare."""


def build_mountains(rows: int, cols: int, rng: np.random.Generator, refinement: int = 2) -> Landscape:
    """Mountains of `rows` x `cols` pixels, with a mean slope of 22 degrees."""
    shape = rows * refinement, cols * refinement
    height = _relief(shape, refinement, rng)
    east, north = slopes(height, north_up(1 / refinement))
    steep = np.hypot(east, north)
    scale = np.float32(np.tan(np.radians(_MEAN_SLOPE_DEG)) / steep.mean())
    steep = np.degrees(np.arctan(scale * steep))
    ground = _ground(height / max(float(height.std()), 1e-9), steep, _PATCH * refinement, rng)
    return Landscape(refinement, scale * height, scale * east, scale * north, ground)


def _relief(shape: tuple[int, int], refinement: int, rng: np.random.Generator) -> Field:
    """Waves of all directions whose amplitude falls with the frequency, and ridges where they meet."""
    frequency = refinement * np.hypot(*np.meshgrid(*(np.fft.fftfreq(n) for n in shape), indexing="ij"))
    frequency = np.maximum(frequency, 1 / (4 * _LONGEST))
    passed = (frequency > 1 / _LONGEST) & (frequency < 1 / _SHORTEST)
    amplitude = np.where(passed, frequency**-_ROUGHNESS, 0)
    one, other = (np.fft.ifft2(np.fft.fft2(rng.standard_normal(shape)) * amplitude).real for _ in range(2))
    one, other = one / one.std(), other / other.std()
    return np.asarray(one - gaussian_filter(np.abs(other), 0.7 * refinement), dtype=np.float32)


def _ground(high: Field, steep: Field, patch: float, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Material of every cell: by patches, height and slope [degree]."""
    moist, kind = (gaussian_filter(rng.standard_normal(high.shape), patch) for _ in range(2))
    moist, kind = moist / moist.std() - 0.3 * high, kind / kind.std()
    ground = np.full(high.shape, material_index("grass"), np.uint8)
    for name, where in (
        ("dry grass", moist < -0.2),
        ("tree", moist > 0.5),
        ("light loam", (kind > 0.9) & (moist < 0.5)),
        ("dark loam", (kind > 1.3) & (moist < 0.8)),
        ("limestone gravel", kind < -0.8),
        ("granite gravel", kind < -1.3),
        ("fresh asphalt", np.abs(kind - moist) < 0.04),
        ("granite gravel", (steep > _ROCK_SLOPE_DEG) & (kind < 0)),
    ):
        ground[where] = material_index(name)
    return ground
