"""Training of the encoder on draws of the decoder."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from p3vae.models.landcover.library.encoder import FLOOR, Encoder, Network
from p3vae.physics.spectral_response import Bands, resampling_matrix

from .draws import Draws, Light, draw_ground
from .ground import FloatArray, Ground
from .legend import CLASSES
from .sources import model_bands

HIDDEN = 128
EPOCHS = 14
PIXELS = 800
"""Of every material and epoch."""
_BATCH = 400
_SAME_GROUND = 2
"""Epochs on the same pixels, each in other light."""
_RATE = 0.002
_DECAY = 0.01
_STEP_NM = 20.0
_GAPS_NM = ((1335.0, 1465.0), (1785.0, 1965.0))
_FEWER_NM = (490.0, 560.0, 660.0, 860.0, 1610.0, 2200.0)
_LEAST_STD = 0.01


class Grid(NamedTuple):
    """Nodes of a network."""

    bands: Bands
    reach_nm: float


def grids() -> list[Grid]:
    """Full range; six bands like those of Landsat; to 1000 nm, to 880 nm; blue to near infrared."""
    full, long, short = (Grid(_dense(last), 40.0) for last in (2320.0, 1000.0, 880.0))
    six, four = (Grid(Bands.from_centres(np.array(_FEWER_NM[:n]), np.full(n, 40.0)), 40.0) for n in (6, 4))
    return [full, six, long, short, four]


def _dense(last_nm: float) -> Bands:
    nodes = np.arange(460.0, last_nm + 1, _STEP_NM)
    for low, high in _GAPS_NM:
        nodes = nodes[(nodes < low) | (nodes > high)]
    return Bands.from_centres(nodes, np.full(len(nodes), _STEP_NM))


def train_encoder(
    ground: Ground,
    materials: list[str],
    seed: int = 0,
    *,
    epochs: int = EPOCHS,
    plants: bool = True,
    which: list[Grid] | None = None,
) -> Encoder:
    """A network for every grid, on the same draws."""
    rng = np.random.default_rng(seed)
    light, own = Light(), model_bands()
    chosen = which or grids()
    to_grid = [resampling_matrix(own, grid.bands) for grid in chosen]
    models = []
    for number, matrix in enumerate(to_grid):
        torch.manual_seed(seed * 100 + number)
        models.append(_network(matrix.shape[1], len(materials)))
    optimisers = [torch.optim.AdamW(m.parameters(), lr=_RATE, weight_decay=_DECAY) for m in models]
    scales: list[tuple[Tensor, Tensor]] = []
    draws = draw_ground(ground, materials, PIXELS, rng, plants=plants)
    steps = epochs * (-(-len(draws.material) // _BATCH))
    schedules = [torch.optim.lr_scheduler.OneCycleLR(o, _RATE, total_steps=steps) for o in optimisers]
    for epoch in range(epochs):
        if epoch and epoch % _SAME_GROUND == 0:
            draws = draw_ground(ground, materials, PIXELS, rng, plants=plants)
        seen = light.seen(draws.reflectance, rng)
        inputs = [_log(seen @ matrix) for matrix in to_grid]
        if not scales:
            scales = [(x.mean(0), x.std(0)) for x in inputs]
        order = rng.permutation(len(seen))
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            for model, x, (centre, scale), opt, plan in zip(
                models, inputs, scales, optimisers, schedules, strict=True
            ):
                loss = _loss(model((x[rows] - centre) / scale), draws, rows)
                opt.zero_grad()
                loss.backward()
                opt.step()
                plan.step()
    return Encoder(
        tuple(
            Network(grid.bands, grid.reach_nm, _layers(model, *scale), (len(materials), len(CLASSES)))
            for grid, model, scale in zip(chosen, models, scales, strict=True)
        )
    )


def _network(inputs: int, materials: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, materials + 2 * len(CLASSES)),
    )


def _log(spectra: FloatArray) -> Tensor:
    return torch.as_tensor(np.log(np.maximum(spectra, FLOOR)), dtype=torch.float32)


def _loss(found: Tensor, draws: Draws, rows: FloatArray) -> Tensor:
    """Of dominant material, fractions, and the spread of fractions."""
    classes = len(CLASSES)
    logits, fraction, scale = torch.split(found, [found.shape[1] - 2 * classes, classes, classes], 1)
    material = torch.as_tensor(draws.material[rows])
    truth = torch.as_tensor(draws.fraction[rows], dtype=torch.float32)
    of_material = F.cross_entropy(logits, material)
    of_fraction = F.cross_entropy(fraction, truth)
    error = (fraction.softmax(1) - truth).detach()
    std = scale.exp() + _LEAST_STD
    of_spread = (0.5 * (error / std).square() + std.log()).mean()
    return of_material + of_fraction + of_spread


def _layers(model: nn.Sequential, centre: Tensor, scale: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    """Weights and biases, the first of which standardise."""
    linear = [one for one in model if isinstance(one, nn.Linear)]
    found = [(one.weight.detach().T.contiguous(), one.bias.detach().clone()) for one in linear]
    weight = found[0][0] / scale[:, None]
    found[0] = (weight.contiguous(), found[0][1] - centre @ weight)
    return tuple(found)
