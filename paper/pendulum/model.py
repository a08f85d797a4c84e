"""Pendulum models as users meet them: what they learn from, how they are trained, what they return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.checkpoint import ModelFile, read_model_file, write_model_file
from p3vae.models.nn.trainer import EpochOutcome, Optimisation, train
from p3vae.paper.pendulum.network import PendulumNetwork
from p3vae.paper.pendulum.p3vae import PendulumP3Vae
from p3vae.paper.pendulum.physics import OBSERVED_STEPS
from p3vae.paper.pendulum.published import OdeVae, PhiVae, PublishedP3Vae

Name = Literal["vae-ode", "phi-vae", "p3vae-published", "p3vae"]
FloatArray = npt.NDArray[np.floating[Any]]

KIND = "pendulum"
NAMES: tuple[Name, ...] = get_args(Name)
"""Two baselines, p3VAE as published, and p3VAE as we build it."""


@dataclass(frozen=True)
class PendulumSettings:
    """Which model, and how to train it."""

    model: Name = "p3vae"
    epochs: int | None = None
    """Passes over the training swings; None is the model's own number."""
    seed: int = 0
    batch_size: int = 200
    labelled_fraction: float = 0.2
    """Share of the swings whose true ω the model may see."""
    stop_gradient: bool = True
    """Swings of unknown ω never change the learned force."""

    def __post_init__(self) -> None:
        if self.model not in NAMES:
            raise ValueError(f"no pendulum model {self.model!r}; there are {', '.join(NAMES)}")
        if not 0.0 < self.labelled_fraction <= 1.0:
            raise ValueError(f"labelled_fraction must be above 0 and at most 1, got {self.labelled_fraction}")


_AS_PUBLISHED = Optimisation(
    epochs=1000, learning_rate=1e-3, lowest_rate=1e-3, warmup_steps=0, clip_norm=0.0, keep_best=True
)
_OURS = Optimisation(epochs=60, learning_rate=3e-3, lowest_rate=1e-5, clip_norm=100.0, keep_best=True)
_WEIGHT_DECAY = 1e-6


@dataclass(frozen=True, eq=False)
class PendulumPrediction:
    """What a model says about observed swings."""

    angle: npt.NDArray[np.float32]
    """[rad], (swings, steps), from the first observation on."""
    codes: npt.NDArray[np.float32]
    """Posterior means of the latent variables, (swings, latents)."""
    code_names: tuple[str, ...]


class PendulumModel:
    """A trained pendulum model."""

    def __init__(self, network: PendulumNetwork, settings: PendulumSettings) -> None:
        self.network = network.eval()
        self.settings = settings

    def predict(self, angle: FloatArray, steps: int) -> PendulumPrediction:
        """Continue swings to `steps` angles from their first 50, (swings, at least 50) [rad]."""
        with torch.no_grad():
            forecast = self.network.forecast(_observed(angle), steps)
        return PendulumPrediction(forecast.angle.numpy(), forecast.codes.numpy(), self.network.latent_names)

    def save(self, path: str | Path) -> None:
        """Write one model file, whole or not at all."""
        write_model_file(path, ModelFile(KIND, asdict(self.settings), self.network.state_dict()))

    @classmethod
    def load(cls, path: str | Path) -> PendulumModel:
        """Read a file written by `save`; `ModelFormatError` says what is wrong with it."""
        file = read_model_file(path, kind=KIND)
        settings = PendulumSettings(**file.card)
        network = _network(settings)
        network.load_state_dict(dict(file.tensors))
        return cls(network, settings)


def train_pendulum(
    angle: FloatArray,
    omega: FloatArray,
    validation_angle: FloatArray,
    validation_omega: FloatArray,
    settings: PendulumSettings,
    *,
    on_epoch: Callable[[EpochOutcome], None] | None = None,
) -> PendulumModel:
    """Train on swings (swings, 50) [rad] and keep the weights that are best on the validation swings.

    Of the frequencies `omega` (swings,) [rad s-1] the model sees the `labelled_fraction` that the seed
    picks, and nan otherwise. The same seed gives the same model.
    """
    rng = np.random.default_rng(settings.seed)
    swings = _observed(angle), _partly_known(omega, settings.labelled_fraction, rng)
    validation = _observed(validation_angle), _partly_known(validation_omega, settings.labelled_fraction, rng)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = _network(settings)
    if isinstance(network, PendulumP3Vae):
        network.set_omega_prior(swings[1])

    def batches(epoch: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        order = torch.randperm(len(swings[0]), generator=generator)
        for rows in torch.split(order, settings.batch_size):
            yield swings[0][rows], swings[1][rows]

    def loss(batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        terms = network.loss_terms(*batch)
        return {**terms, "total": torch.stack(list(terms.values())).sum()}

    def validation_loss() -> float:
        with torch.no_grad():
            return float(loss(validation)["total"])

    train(
        network,
        batches,
        loss,
        _optimisation(settings),
        seed=settings.seed,
        weight_decay={name: _WEIGHT_DECAY for name, _ in network.named_children()},
        validation_loss=validation_loss,
        on_epoch=on_epoch,
    )
    if isinstance(network, PendulumP3Vae):
        network.calibrate_noise(validation[0])
    return PendulumModel(network, settings)


def _optimisation(settings: PendulumSettings) -> Optimisation:
    how = _OURS if settings.model == "p3vae" else _AS_PUBLISHED
    return how if settings.epochs is None else replace(how, epochs=settings.epochs)


def _network(settings: PendulumSettings) -> PendulumNetwork:
    match settings.model:
        case "vae-ode":
            return OdeVae()
        case "phi-vae":
            return PhiVae()
        case "p3vae-published":
            return PublishedP3Vae(stop_gradient=settings.stop_gradient)
        case "p3vae":
            return PendulumP3Vae(stop_gradient=settings.stop_gradient)


def _observed(angle: FloatArray) -> Tensor:
    if angle.ndim != 2 or angle.shape[1] < OBSERVED_STEPS:
        raise ValueError(f"swings must be (swings, at least {OBSERVED_STEPS}) angles, got {angle.shape}")
    return torch.from_numpy(np.ascontiguousarray(angle[:, :OBSERVED_STEPS], dtype=np.float32))


def _partly_known(omega: FloatArray, fraction: float, rng: np.random.Generator) -> Tensor:
    known = rng.permutation(len(omega))[: max(2, round(fraction * len(omega)))]
    visible = np.full(len(omega), np.nan, dtype=np.float32)
    visible[known] = omega[known]
    return torch.from_numpy(visible)
