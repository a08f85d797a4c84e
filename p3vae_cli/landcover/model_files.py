"""Model files: the shipped ones, those a user names, and whether they fit a scene."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from p3vae.cli.errors import BandMismatchError, ModelFileError, P3vaeError, UsageError
from p3vae.cli.scenes.base import Quantity, Scene
from p3vae.physics.spectral_response import (
    BandAdapter,
    BandCoverageError,
    Bands,
    adapt_bands,
    covered_bands,
)

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel

DEFAULT_LAND_COVER = "earth.p3vae"
FEWEST_BANDS = 10
"""Of a Gaussian model that a scene must cover."""


def shipped_models() -> list[Path]:
    """The models that come with the package."""
    folder = Path(str(resources.files("p3vae.models"))) / "weights"
    return sorted(folder.glob("*.p3vae"))


def default_land_cover() -> Path:
    """The model used when none is named."""
    for path in shipped_models():
        if path.name == DEFAULT_LAND_COVER:
            return path
    raise ModelFileError("this installation ships no land-cover model", remedy="name one with -m MODEL")


def find_model(path: Path | None) -> Path:
    """The file of a model: a path, the name of a shipped one (`earth`), or the default for None."""
    if path is None:
        return default_land_cover()
    named = {shipped.stem: shipped for shipped in shipped_models()}
    return named[str(path)] if str(path) in named and not path.exists() else path


def model_name(path: Path | None) -> str:
    """How messages call a model."""
    return find_model(path).name


def load_land_cover(path: Path | None, device: str = "auto") -> LandCoverModel:
    """A land-cover model from its file; None is the shipped one."""
    # Not from `train`, which imports a second's worth of libraries.
    from p3vae.models.landcover.model import load_model

    chosen = find_model(path)
    with model_errors(chosen):
        return load_model(chosen, device=resolve_device(device))


def resolve_device(name: str) -> str:
    """`auto` is the first accelerator there is, or the CPU; anything else must exist."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        if "device type at start of device string" in reason:  # with twenty names that nobody here has
            raise UsageError(
                f"--device {name} is unknown", remedy="auto, cpu, cuda, cuda:N or mps"
            ) from error
        raise UsageError(f"--device {name} cannot be used: {reason}", remedy="try --device cpu") from error
    return name


@contextmanager
def model_errors(path: Path) -> Iterator[None]:
    """Turn what a damaged or foreign model file causes into a `ModelFileError`.

    A card may hold anything where numbers, lists or names are expected.
    """
    from p3vae.models.checkpoint import ModelFormatError

    try:
        yield
    except ModelFormatError as error:
        if isinstance(error.__cause__, MemoryError):
            raise MemoryError from error
        raise ModelFileError(str(error).removeprefix(f"{path}: "), path=path) from error
    except (P3vaeError, MemoryError):
        raise
    except OSError as error:
        raise ModelFileError(f"cannot be read: {error.strerror or error}", path=path) from error
    except Exception as error:
        if os.strerror(errno.EMFILE) in str(error):  # safetensors gives no number
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path)) from error
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ModelFileError(f"is not a complete model ({reason})", path=path) from error


def fit_bands(scene: Scene, bands: Bands, model: str) -> BandAdapter:
    """The adapter from the scene's bands to a model's, or an error that names what is missing."""
    try:
        return adapt_bands(scene.bands, bands)
    except BandCoverageError as error:
        raise BandMismatchError(
            f"{error}, which the model {model} needs",
            path=scene.path,
            remedy="use a model trained on this sensor's bands (p3vae train)",
        ) from error


def require_quantity(scene: Scene, quantity: Quantity, purpose: str) -> None:
    """Refuse a scene that holds the other quantity."""
    if scene.quantity != quantity:
        raise BandMismatchError(
            f"holds {scene.quantity}, and {purpose} needs {quantity}",
            path=scene.path,
            remedy=f"give a {quantity} product, or --quantity {quantity} if the file says so wrongly",
        )


@dataclass(frozen=True)
class Verdict:
    """Whether a model could be applied to a scene, and if not, why."""

    model: str
    applicable: bool
    reason: str

    def record(self) -> dict[str, Any]:
        """For JSON."""
        return {"model": self.model, "applicable": self.applicable, "reason": self.reason}


def verdicts(scene: Scene, models: list[Path]) -> list[Verdict]:
    """A verdict on each model file."""
    return [_verdict(scene, path) for path in models]


def _verdict(scene: Scene, path: Path) -> Verdict:
    from p3vae.models.checkpoint import read_card

    try:
        with model_errors(path):
            kind, card = read_card(path)
            if kind not in ("landcover", "methane"):
                return Verdict(path.name, False, f"is no model but a {kind}")
            require_quantity(scene, "radiance" if kind == "methane" else "reflectance", f"a {kind} model")
            if kind == "methane":
                return _methane_verdict(scene, path, card)
            bands = Bands.from_centres(card["bands"]["wavelength_nm"], card["bands"]["fwhm_nm"])
            if card.get("materials"):
                return _material_verdict(scene, path, bands)
            if "home" in card:
                return _flexible_verdict(scene, path, bands, card)
            adapter = fit_bands(scene, bands, path.name)
    except (ModelFileError, BandMismatchError) as error:
        return Verdict(path.name, False, error.problem)
    how = "bands match" if adapter.is_exact else f"bands are resampled to its {len(bands)}"
    name = card.get("settings", {}).get("model")
    return Verdict(path.name, True, f"{kind} ({name}), {how}" if name else f"{kind}, {how}")


def _flexible_verdict(scene: Scene, path: Path, own: Bands, card: Mapping[str, Any]) -> Verdict:
    """A Gaussian model goes without the bands that a scene lacks."""
    covered = covered_bands(scene.bands, own)
    count = int(covered.sum())
    if count < FEWEST_BANDS:
        return Verdict(path.name, False, f"the scene covers {count} of its {len(own)} bands")
    adapter = fit_bands(scene, own.select(covered), path.name)
    how = "bands match" if adapter.is_exact else f"bands are resampled to its {count}"
    lost = len(own) - count
    without = f", {lost} of its {len(own)} bands are missing and integrated out" if lost else ""
    return Verdict(path.name, True, f"landcover ({card['settings']['model']}), {how}{without}")


def _material_verdict(scene: Scene, path: Path, own: Bands) -> Verdict:
    """A model of materials fits every sensor with a few bands in its range."""
    from p3vae.models.landcover import sensors

    count = int(sensors.usable_bands(own, scene.bands).sum())
    if count < sensors.FEWEST_BANDS:
        return Verdict(path.name, False, f"{count} bands of the scene lie where it has any")
    return Verdict(path.name, True, f"landcover (earth), brought to {count} bands of the scene")


def _methane_verdict(scene: Scene, path: Path, card: Mapping[str, Any]) -> Verdict:
    """A methane background is never resampled: it needs the bands that it was learned on."""
    from p3vae.models.methane.model import SAME_BAND_NM

    own = np.asarray(card.get("wavelength_nm", ()), np.float64)
    if len(own) == 0:
        return Verdict(path.name, False, "comes from another version of p3vae")
    missing = int((np.abs(own[:, None] - scene.bands.wavelength_nm).min(axis=1) > SAME_BAND_NM).sum())
    if missing:
        return Verdict(path.name, False, f"{missing} of its {len(own)} bands are not the scene's")
    return Verdict(path.name, True, "methane, bands match")
