"""One trainer for every network: clipped gradients, reproducible, able to go on where it stopped."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

import torch
from torch import Tensor, nn

Batch = TypeVar("Batch")
Losses = Mapping[str, Tensor]
"""Named terms; `total` is what is minimised."""


class BrokenRunError(RuntimeError):
    """The loss is no number any more."""


@dataclass(frozen=True, eq=False)
class TrainingState:
    """Everything an interrupted run needs to go on as if nothing had happened."""

    epoch: int
    """Epochs done."""
    tensors: Mapping[str, Tensor]
    notes: Mapping[str, Any] = field(default_factory=dict)
    """JSON values: settings and digests that a resumed run must agree with."""


@dataclass(frozen=True)
class Optimisation:
    """How to descend."""

    epochs: int
    learning_rate: float = 1e-3
    lowest_rate: float = 1e-4
    cycle_steps: int = 0
    """Half a period of the triangular2 schedule [steps]; 0 is a warm-up followed by a cosine."""
    warmup_steps: int = 50
    clip_norm: float = 1.0
    """Largest gradient norm; 0 does not clip."""
    method: Literal["adam", "rmsprop"] = "adam"
    keep_best: bool = False
    """Return the weights of the lowest validation loss instead of the last ones."""

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of one step of `steps`."""
        if self.cycle_steps:
            cycle = step // (2 * self.cycle_steps)
            height = 1 - abs(step / self.cycle_steps - 2 * cycle - 1)
            return self.lowest_rate + (self.learning_rate - self.lowest_rate) * height / float(2**cycle)
        warm = min(1.0, (step + 1) / max(self.warmup_steps, 1))
        fall = 0.5 * (1 + math.cos(math.pi * step / max(steps, 1)))
        return warm * (self.lowest_rate + (self.learning_rate - self.lowest_rate) * fall)


@dataclass(frozen=True)
class EpochOutcome:
    """One epoch as the trainer sees it."""

    epoch: int
    losses: Mapping[str, float]
    validation: float
    """Validation loss, or nan."""


def train(
    model: nn.Module,
    batches: Callable[[int, torch.Generator], Iterable[Batch]],
    loss: Callable[[Batch], Losses],
    how: Optimisation,
    *,
    seed: int,
    weight_decay: Mapping[str, float] | None = None,
    validation_loss: Callable[[], float] | None = None,
    on_epoch: Callable[[EpochOutcome], None] | None = None,
    resume_from: TrainingState | None = None,
    save_state: Callable[[TrainingState], None] | None = None,
) -> None:
    """Train in place, on the device that holds the model; batches may lie elsewhere.

    `batches(epoch, generator)` yields the batches of one epoch; randomness depends on seed and epoch only,
    which is what makes a resumed run equal to an uninterrupted one. `weight_decay` maps the first part of
    parameter names to an L2 penalty.
    """
    kind = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[how.method]
    optimiser = kind(_parameter_groups(model, weight_decay or {}), foreach=True)
    best: dict[str, Tensor] = {}
    best_value, step, first = math.inf, 0, 0
    if resume_from is not None:
        first, step, best_value, best = _restore(model, optimiser, resume_from)
    for epoch in range(first, how.epochs):
        model.train()
        generator = torch.Generator().manual_seed(_mixed_seed(seed, epoch))
        with torch.random.fork_rng(devices=[]), _without_denormals():
            torch.manual_seed(_mixed_seed(seed, epoch) + 1)
            losses, step = _one_epoch(model, optimiser, list(batches(epoch, generator)), loss, how, step)
            model.eval()
            value = validation_loss() if validation_loss is not None else math.nan
        if how.keep_best and value < best_value:
            best_value, best = value, {name: v.detach().clone() for name, v in model.state_dict().items()}
        if save_state is not None:
            save_state(_capture(model, optimiser, epoch + 1, step, best_value, best))
        if on_epoch is not None:
            on_epoch(EpochOutcome(epoch + 1, losses, value))
    if best:
        model.load_state_dict(best)
    model.eval()


@contextmanager
def _without_denormals() -> Iterator[None]:
    """Moments of weights that no longer learn fall below normal numbers, where a CPU is many times slower.

    This is a state of the thread, so it must not outlast the training.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _one_epoch(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: list[Batch],
    loss: Callable[[Batch], Losses],
    how: Optimisation,
    step: int,
) -> tuple[dict[str, float], int]:
    sums: dict[str, float] = {}
    device = next(model.parameters()).device
    for batch in batches:
        for group in optimiser.param_groups:
            group["lr"] = how.rate(step, how.epochs * len(batches))
        terms = loss(moved(batch, device))
        total = terms["total"]
        if not torch.isfinite(total):
            raise BrokenRunError(f"the loss became {total.item()} at step {step}")
        optimiser.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        if how.clip_norm:
            nn.utils.clip_grad_norm_(model.parameters(), how.clip_norm)
        optimiser.step()
        step += 1
        for name, term in terms.items():
            sums[name] = sums.get(name, 0.0) + float(term.detach())
    return {name: value / max(len(batches), 1) for name, value in sums.items()}, step


def moved(batch: Batch, device: torch.device | str) -> Batch:
    """A tensor, or a tuple with tensors in it, on a device; anything else as it is."""
    if isinstance(batch, Tensor):
        return cast(Batch, batch.to(device))
    if isinstance(batch, tuple):
        parts = [moved(part, device) for part in batch]
        return cast(Batch, type(batch)(*parts) if hasattr(batch, "_fields") else tuple(parts))
    return batch


def _mixed_seed(seed: int, epoch: int) -> int:
    return (seed * 1_000_003 + epoch * 7_919 + 17) % (2**31)


def _parameter_groups(model: nn.Module, weight_decay: Mapping[str, float]) -> list[dict[str, Any]]:
    groups: dict[float, list[nn.Parameter]] = {}
    for name, parameter in model.named_parameters():
        groups.setdefault(weight_decay.get(name.split(".")[0], 0.0), []).append(parameter)
    return [{"params": parameters, "weight_decay": decay} for decay, parameters in groups.items()]


def _capture(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    epoch: int,
    step: int,
    best_value: float,
    best: Mapping[str, Tensor],
) -> TrainingState:
    tensors = {f"model.{name}": value.detach().cpu().clone() for name, value in model.state_dict().items()}
    for index, moments in optimiser.state_dict()["state"].items():
        tensors.update(
            {f"optimiser.{index}.{name}": value.detach().cpu().clone() for name, value in moments.items()}
        )
    tensors.update({f"best.{name}": value.cpu() for name, value in best.items()})
    progress = torch.tensor([float(step), best_value], dtype=torch.float64)
    return TrainingState(epoch, {**tensors, "progress": progress})


def _restore(
    model: nn.Module, optimiser: torch.optim.Optimizer, state: TrainingState
) -> tuple[int, int, float, dict[str, Tensor]]:
    def part(prefix: str) -> dict[str, Tensor]:
        return {k.removeprefix(prefix): v for k, v in state.tensors.items() if k.startswith(prefix)}

    model.load_state_dict(part("model."))
    moments: dict[int, dict[str, Tensor]] = {}
    for name, value in part("optimiser.").items():
        index, key = name.split(".", 1)
        moments.setdefault(int(index), {})[key] = value.clone()
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})
    step, best_value = state.tensors["progress"].tolist()
    return state.epoch, int(step), best_value, part("best.")
