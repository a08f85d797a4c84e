"""Methane methods that live outside of this package, imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from p3vae.models.methane.devices import Inverter
    from p3vae.models.methane.types import PlumeOptics

_PRESETS = {"paper": "p3vae.paper.methane"}
"""By preset, the module with the function `fit_preset`."""


class PresetFit(Protocol):
    """Learns from radiance (pixels, bands) [W m-2 sr-1 um-1] without plumes, and under plumes."""

    def __call__(
        self,
        plume_free: Tensor,
        under_plume: Tensor,
        optics: PlumeOptics,
        *,
        max_ppm_m: float,
        seed: int,
        progress: Callable[[int, int], None],
    ) -> Inverter:
        """The method, on the CPU."""


def preset_fit(name: str) -> PresetFit:
    """How p3VAE of a preset other than the default one learns."""
    found: PresetFit = import_module(_PRESETS[name]).fit_preset
    return found
