"""Inversion on a chosen device: a fitted method, moved there, for spectra that lie in the CPU's memory."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, TypeVar

from torch import Tensor, nn

from p3vae.models.methane.types import MethaneEstimate

T = TypeVar("T")


class Inverter(Protocol):
    """Any fitted method."""

    def invert(self, radiance: Tensor, detector_column: Tensor | None = None) -> MethaneEstimate:
        """Enhancement of radiance (pixels, bands)."""


@dataclass(frozen=True, eq=False)
class OnDevice:
    """A method whose numbers lie on a device; spectra go there, estimates come back."""

    method: Inverter
    device: str

    @classmethod
    def move(cls, method: Inverter, device: str) -> OnDevice:
        """The method as `fit` returned it, on another device."""
        own = getattr(method, "to", None)
        return cls(moved(method, device) if own is None else own(device), device)

    def invert(self, radiance: Tensor, detector_column: Tensor | None = None) -> MethaneEstimate:
        """Enhancement of radiance (pixels, bands), both on the CPU."""
        return moved(self.method.invert(*moved((radiance, detector_column), self.device)), "cpu")


def moved(thing: T, device: str) -> T:
    """A tensor, network, dataclass or tuple, with all tensors in it, on a device; anything else as it is."""
    found: Any = thing
    if isinstance(thing, Tensor):
        found = thing.to(device)
    elif isinstance(thing, nn.Module):
        found = deepcopy(thing).to(device)  # in place otherwise
    elif isinstance(thing, tuple):
        found = tuple(moved(part, device) for part in thing)
    elif is_dataclass(thing) and not isinstance(thing, type):
        found = replace(thing, **{f.name: moved(getattr(thing, f.name), device) for f in fields(thing)})
    return found  # type: ignore[no-any-return]
