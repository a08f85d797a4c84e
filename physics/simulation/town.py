"""A synthetic town: relief, streets, gabled houses, halls, trees and hedges, as fields on a fine grid.

Lengths are in pixels of the scene, so that a house is about ten pixels across at any pixel size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from p3vae.physics.simulation import materials
from p3vae.physics.simulation.landscape import Field, Landscape


@dataclass(frozen=True)
class _Block:
    """A piece of ground between streets, in street coordinates [pixels]."""

    u_low: float
    u_high: float
    v_low: float
    v_high: float

    @property
    def centre(self) -> tuple[float, float]:
        return (self.u_low + self.u_high) / 2, (self.v_low + self.v_high) / 2


class _Builder:
    """Stamps objects on the fine grid; street axes u, v are rotated against east and south."""

    def __init__(self, rows: int, cols: int, refinement: int, rng: np.random.Generator) -> None:
        self.rng = rng
        self.rows, self.cols, self.refinement = rows, cols, refinement
        self.turn = np.radians(rng.uniform(8.0, 28.0))
        self.block_size = float(np.clip(min(rows, cols) / 4, 16.0, 40.0))
        y, x = np.mgrid[0 : rows * refinement, 0 : cols * refinement].astype(np.float32)
        self.x, self.y = (x + 0.5) / refinement, (y + 0.5) / refinement
        self.ground, self.ground_east, self.ground_north = _relief(self.x, self.y, rng)
        self.height = self.ground.copy()
        self.slope_east, self.slope_north = self.ground_east.copy(), self.ground_north.copy()
        self.material = np.zeros(x.shape, dtype=np.uint8)

    def to_map(self, u: float, v: float) -> tuple[float, float]:
        """Street coordinates to east and south [pixels]."""
        cos, sin = np.cos(self.turn), np.sin(self.turn)
        return float(u * cos - v * sin), float(u * sin + v * cos)

    def box(self, x: float, y: float, radius: float) -> tuple[slice, slice]:
        """Fine-grid slices of a square around a point; empty outside the field."""
        low = [max(int((c - radius) * self.refinement), 0) for c in (y, x)]
        high = [max(int((c + radius) * self.refinement) + 1, 0) for c in (y, x)]
        return slice(low[0], high[0]), slice(low[1], high[1])

    def local(
        self, x: float, y: float, angle: float, radius: float
    ) -> tuple[tuple[slice, slice], Field, Field]:
        """Slices around a point and the coordinates there along and across an axis at `angle`."""
        box = self.box(x, y, radius)
        east, south = self.x[box] - x, self.y[box] - y
        along = east * np.cos(angle) + south * np.sin(angle)
        return (
            box,
            along.astype(np.float32),
            (south * np.cos(angle) - east * np.sin(angle)).astype(np.float32),
        )

    def ground_at(self, x: float, y: float) -> float:
        row = int(np.clip(y * self.refinement, 0, self.height.shape[0] - 1))
        col = int(np.clip(x * self.refinement, 0, self.height.shape[1] - 1))
        return float(self.ground[row, col])

    def building(
        self,
        x: float,
        y: float,
        angle: float,
        *,
        length: float,
        width: float,
        eaves: float,
        pitch_deg: float,
        roof: str,
    ) -> None:
        """A gabled building, its ridge along `angle` (clockwise from east); pitch 0 is a flat roof."""
        pitch = float(np.tan(np.radians(pitch_deg)))
        box, along, across = self.local(x, y, angle, np.hypot(length, width) / 2 + 1)
        inside = (np.abs(along) <= length / 2) & (np.abs(across) <= width / 2)
        top = self.ground_at(x, y) + eaves + (width / 2 - np.abs(across)) * pitch
        down = -np.sign(across) * pitch
        self.height[box][inside] = top[inside]
        self.slope_east[box][inside] = (-np.sin(angle) * down)[inside]
        self.slope_north[box][inside] = (-np.cos(angle) * down)[inside]
        self.material[box][inside] = materials.material_index(roof)

    def tree(self, x: float, y: float, radius: float, top: float) -> None:
        """A domed crown; its leaves scatter the effect of its shape, hence the softened slopes."""
        box, east, south = self.local(x, y, 0.0, radius + 1)
        squared = (east**2 + south**2) / radius**2
        inside = squared < 1.0
        dome = np.sqrt(np.maximum(1.0 - squared, 0.02))
        crown = self.ground[box] + top * (0.4 + 0.6 * dome)
        inside &= crown > self.height[box]
        steepness = np.float32(0.35) * np.minimum(0.6 * top / (radius**2 * dome), 1.5 / radius)
        self.height[box][inside] = crown[inside]
        self.slope_east[box][inside] = (-steepness * east)[inside]
        self.slope_north[box][inside] = (steepness * south)[inside]
        self.material[box][inside] = materials.material_index("tree")

    def hedge(self, x: float, y: float, angle: float, length: float) -> None:
        """A trimmed hedge, one pixel thick."""
        box, along, across = self.local(x, y, angle, length / 2 + 1)
        inside = (np.abs(along) <= length / 2) & (np.abs(across) <= 0.6)
        inside &= self.height[box] <= self.ground[box] + 0.1
        self.height[box][inside] = (self.ground[box] + 1.8)[inside]
        self.material[box][inside] = materials.material_index("tree")


def build_town(rows: int, cols: int, rng: np.random.Generator, refinement: int = 3) -> Landscape:
    """A town of `rows` x `cols` pixels; every kind of block occurs if there is room for six blocks."""
    town = _Builder(rows, cols, refinement, rng)
    streets_u, streets_v = _street_axes(town)
    blocks = _lay_ground(town, streets_u, streets_v)
    for block, furnish in blocks:
        furnish(town, block)
    return Landscape(refinement, town.height, town.slope_east, town.slope_north, town.material)


def _relief(x: Field, y: Field, rng: np.random.Generator) -> tuple[Field, Field, Field]:
    """Gentle hills (slopes of a few degrees): height and its slopes towards east and north."""
    height, east, north = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    for _ in range(5):
        wavelength, heading, phase = (
            rng.uniform(70, 220),
            rng.uniform(0, 2 * np.pi),
            rng.uniform(0, 2 * np.pi),
        )
        slope = np.tan(np.radians(rng.uniform(0.6, 1.6)))
        k_east, k_south = 2 * np.pi / wavelength * np.array([np.cos(heading), np.sin(heading)])
        angle = (k_east * x + k_south * y + phase).astype(np.float32)
        amplitude = slope * wavelength / (2 * np.pi)
        height += (amplitude * np.sin(angle)).astype(np.float32)
        east += (amplitude * k_east * np.cos(angle)).astype(np.float32)
        north -= (amplitude * k_south * np.cos(angle)).astype(np.float32)
    return height, east, north


def _street_axes(town: _Builder) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Positions of the streets along u and v, covering the whole turned field."""
    reach = float(np.hypot(town.rows, town.cols)) + 2 * town.block_size
    count = int(np.ceil(2 * reach / (0.85 * town.block_size)))
    axes = [-reach + np.cumsum(town.rng.uniform(0.85, 1.15, count)) * town.block_size for _ in range(2)]
    return axes[0], axes[1]


Furnish = Callable[[_Builder, _Block], None]


def _lay_ground(
    town: _Builder, streets_u: npt.NDArray[np.float64], streets_v: npt.NDArray[np.float64]
) -> list[tuple[_Block, Furnish]]:
    """Paint streets and the ground of every block; return the blocks with what is to stand on them."""
    cos, sin = np.cos(town.turn), np.sin(town.turn)
    u, v = town.x * cos + town.y * sin, town.y * cos - town.x * sin
    column, row = np.searchsorted(streets_u, u), np.searchsorted(streets_v, v)
    number = row * (len(streets_u) + 1) + column
    kinds = _block_kinds()
    furnished: list[tuple[_Block, Furnish]] = []
    ground_of_block = np.zeros((len(streets_u) + 1) * (len(streets_v) + 1), dtype=np.uint8)
    numbers = np.unique(number)
    rounds = [town.rng.permutation(len(kinds)) for _ in range(len(numbers) // len(kinds) + 1)]
    for block_number, kind in zip(numbers, np.concatenate(rounds), strict=False):
        grounds, furnish = kinds[kind]
        ground = grounds[int(town.rng.integers(len(grounds)))]
        ground_of_block[block_number] = materials.material_index(ground)
        r, c = divmod(int(block_number), len(streets_u) + 1)
        kerb = 0.09 * town.block_size
        block = _Block(
            streets_u[c - 1] + kerb, streets_u[c] - kerb, streets_v[r - 1] + kerb, streets_v[r] - kerb
        )
        furnished.append((block, furnish))
    town.material = ground_of_block[number]
    _patch_lawns(town)
    _pave_streets(town, u, streets_u)
    _pave_streets(town, v, streets_v)
    return furnished


def _pave_streets(town: _Builder, axis: Field, positions: npt.NDArray[np.float64]) -> None:
    for index, position in enumerate(positions):
        street = np.abs(axis - position) < town.block_size * town.rng.uniform(0.05, 0.08)
        asphalt = "fresh asphalt" if index % 3 == 0 else "worn asphalt"
        town.material[street] = materials.material_index(asphalt)


def _patch_lawns(town: _Builder) -> None:
    """Turn patches of the lawns dry."""
    dryness = _relief(2.5 * town.x, 2.5 * town.y, town.rng)[0]
    lawn = town.material == materials.material_index("grass")
    if lawn.any():
        dry = lawn & (dryness > np.quantile(dryness[lawn], 0.75))
        town.material[dry] = materials.material_index("dry grass")


def _block_kinds() -> tuple[tuple[tuple[str, ...], Furnish], ...]:
    """(possible grounds, what stands on them), one of each kind per round of blocks."""
    return (
        (("grass",), _houses),
        (("worn asphalt", "fresh asphalt"), _halls),
        (("light loam", "dark loam"), partial(_trees, count=2)),
        (("grass",), _houses),
        (("limestone gravel", "granite gravel"), _depot),
        (("grass", "dry grass"), partial(_trees, count=14)),
    )


def _lots(block: _Block, size: float) -> list[_Block]:
    """Cut a block into lots of about `size`."""
    u = np.linspace(block.u_low, block.u_high, max(1, round((block.u_high - block.u_low) / size)) + 1)
    v = np.linspace(block.v_low, block.v_high, max(1, round((block.v_high - block.v_low) / size)) + 1)
    return [_Block(a, b, c, d) for c, d in pairwise(v) for a, b in pairwise(u)]


def _houses(town: _Builder, block: _Block) -> None:
    """Tiled houses in gardens, each turned a little its own way, with hedges and a few trees."""
    rng = town.rng
    for lot in _lots(block, 18.0):
        x, y = town.to_map(*lot.centre)
        size = min(lot.u_high - lot.u_low, lot.v_high - lot.v_low)
        angle = town.turn + np.radians(rng.uniform(-22, 22)) + (np.pi / 2 if rng.random() < 0.5 else 0.0)
        length, width = size * rng.uniform(0.62, 0.78), size * rng.uniform(0.42, 0.52)
        roof = str(rng.choice(["red tile", "orange tile", "weathered tile"]))
        town.building(
            x,
            y,
            angle,
            length=length,
            width=width,
            eaves=0.28 * size,
            pitch_deg=rng.uniform(22, 42),
            roof=roof,
        )
        town.hedge(*town.to_map(lot.u_low, lot.centre[1]), town.turn + np.pi / 2, 0.8 * size)
        if rng.random() < 0.7:
            corner = town.to_map(lot.u_low + 0.17 * size, lot.v_low + 0.15 * size)
            town.tree(*corner, rng.uniform(0.09, 0.14) * size, rng.uniform(0.3, 0.5) * size)


def _halls(town: _Builder, block: _Block) -> None:
    """Two large low-pitched metal halls on asphalt."""
    rng = town.rng
    size = min(block.u_high - block.u_low, block.v_high - block.v_low)
    for side, roof in ((-0.26, "aluminium"), (0.26, "coated steel")):
        u, v = block.centre
        x, y = town.to_map(u, v + side * (block.v_high - block.v_low))
        length, width = size * rng.uniform(0.65, 0.85), size * rng.uniform(0.28, 0.36)
        pitch = rng.uniform(6, 12)
        town.building(
            x, y, town.turn, length=length, width=width, eaves=0.2 * size, pitch_deg=pitch, roof=roof
        )


def _depot(town: _Builder, block: _Block) -> None:
    """A gravel yard with a flat bitumen roof and a small metal shed."""
    size = min(block.u_high - block.u_low, block.v_high - block.v_low)
    u, v = block.centre
    store, shed = town.to_map(u - 0.2 * size, v), town.to_map(u + 0.25 * size, v + 0.2 * size)
    flat = {"length": 0.4 * size, "width": 0.3 * size, "eaves": 0.2 * size, "pitch_deg": 0.0}
    town.building(*store, town.turn, **flat, roof="fresh asphalt")
    gabled = {"length": 0.25 * size, "width": 0.18 * size, "eaves": 0.12 * size, "pitch_deg": 15.0}
    town.building(*shed, town.turn + 0.5, **gabled, roof="aluminium")


def _trees(town: _Builder, block: _Block, count: int) -> None:
    """Scattered trees."""
    size = min(block.u_high - block.u_low, block.v_high - block.v_low)
    for _ in range(count):
        u = town.rng.uniform(block.u_low, block.u_high)
        v = town.rng.uniform(block.v_low, block.v_high)
        radius = size * town.rng.uniform(0.05, 0.11)
        town.tree(*town.to_map(u, v), radius, radius * town.rng.uniform(1.8, 2.8))
