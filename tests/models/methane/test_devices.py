"""Inversion on a device other than the CPU, without one: tensors that refuse to meet one on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from p3vae.models.methane.baselines.matched_filter import MatchedFilter
from p3vae.models.methane.baselines.optimal_estimation import OptimalEstimation
from p3vae.models.methane.devices import OnDevice
from p3vae.models.methane.model import MethaneP3VAE
from p3vae.models.methane.types import MethaneSettings, PlumeOptics
from p3vae.paper.methane import PaperSettings, fit_paper
from p3vae.physics.methane import MethaneAbsorption, air_mass_factor
from p3vae.physics.spectral_response import Bands

DEVICE = torch.device("meta")
BANDS = Bands.from_centres(np.arange(1500.0, 2451.0, 20.0), np.full(48, 11.0))
COLUMNS = 40


class Elsewhere(torch.Tensor):
    """A tensor that says it lies on another device; its numbers are kept beside it."""

    numbers: torch.Tensor

    @staticmethod
    def __new__(cls, numbers: torch.Tensor) -> Elsewhere:
        made = torch.Tensor._make_wrapper_subclass(
            cls, numbers.shape, strides=numbers.stride(), dtype=numbers.dtype, device=DEVICE
        )
        made.numbers = numbers
        return made

    def tolist(self) -> Any:
        """Numbers for Python, as from a GPU."""
        return self.numbers.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _elsewhere(func, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """New tensors for the other device are made there."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _elsewhere(func, args, kwargs or {})


def _elsewhere(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute on the CPU what a device would; operands on both are refused, as a GPU does."""
    tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, torch.Tensor)]
    inside = [isinstance(x, Elsewhere) for x in tensors]
    # indices and single numbers of the CPU are allowed, as on a GPU
    foreign = [x for x in tensors if not isinstance(x, Elsewhere) and x.ndim]
    copies = func.__name__.split(".")[0] in ("_to_copy", "copy_")
    assert not (any(inside) and foreign and not copies), f"{func} of tensors of two devices"
    wanted = kwargs.get("device")
    args, kwargs = tree_map_only(Elsewhere, lambda x: x.numbers, (args, kwargs))
    there = any(inside) if wanted is None else torch.device(wanted) == DEVICE
    if wanted is not None:
        kwargs = {**kwargs, "device": "cpu"}
    found = func(*args, **kwargs)
    return tree_map_only(torch.Tensor, Elsewhere, found) if there else found


def ground(pixels: int, seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    nm = BANDS.wavelength_nm
    shape = 1 + rng.normal(0, 0.1, (pixels, 1)) * (nm - 2000) / 500 + rng.normal(0, 0.01, (pixels, len(nm)))
    return torch.as_tensor(5.0 * np.exp(rng.normal(0, 0.3, (pixels, 1))) * shape)


def optics(*, smile: bool) -> PlumeOptics:
    centres = BANDS.wavelength_nm + np.linspace(-1.0, 1.0, COLUMNS)[:, None] if smile else None
    curves = MethaneAbsorption.load().band_transmittance(BANDS, centres_nm=centres)
    return PlumeOptics(curves, air_mass_factor(30.0), torch.as_tensor(BANDS.wavelength_nm), 4e4)


def p3vae(smile: bool) -> MethaneP3VAE:
    settings = MethaneSettings(components=2, rounds=1, nodes=24, max_ppm_m=4e4)
    return MethaneP3VAE.fit(ground(600, 0), optics(smile=smile), settings=settings)


METHODS = {
    "p3vae": lambda: p3vae(smile=False),
    "p3vae, smile": lambda: p3vae(smile=True),
    "oe": lambda: OptimalEstimation.fit(ground(600, 0), optics(smile=True), prior_mean=0.0, prior_std=1e4),
    "mf": lambda: MatchedFilter.fit(ground(600, 0), optics(smile=False), variant="classic"),
    "mf-log": lambda: MatchedFilter.fit(ground(600, 0), optics(smile=False), variant="log"),
    "mag1c": lambda: MatchedFilter.fit(
        ground(600, 0), optics(smile=True), variant="mag1c", detector_column=torch.arange(600) // 300
    ),
    "paper": lambda: fit_paper(ground(600, 0), ground(64, 1), optics(smile=False), PaperSettings(epochs=1)),
}


@pytest.mark.parametrize("name", METHODS)
def test_another_device_gives_the_same_estimates(name):
    method = METHODS[name]()
    radiance, column = ground(300, 2).float(), torch.arange(300) % 2
    expected = OnDevice.move(method, "cpu").invert(radiance, column)
    with OtherDevice():
        found = OnDevice.move(method, "meta").invert(radiance, column)
    for part in ("ppm_m", "std", "sensitivity"):
        assert getattr(found, part).device.type == "cpu"
        torch.testing.assert_close(getattr(found, part), getattr(expected, part), rtol=1e-4, atol=1.0)


def test_two_devices_do_not_mix_in_this_test():
    with OtherDevice(), pytest.raises(AssertionError, match="two devices"):
        torch.ones(3).to("meta") + torch.ones(3)
