"""Model files: the shipped ones, those a user names, and what is wrong with one."""

from __future__ import annotations

import difflib
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from p3vae.cli.errors import ModelFileError, P3vaeError, UsageError

if TYPE_CHECKING:
    from p3vae.models.landcover.model import LandCoverModel

DEFAULT_LAND_COVER = "earth.p3vae"


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


def _no_such_model(path: Path) -> ModelFileError:
    names = [shipped.stem for shipped in shipped_models()]
    near = difflib.get_close_matches(path.stem, names, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    return ModelFileError(
        "there is no such model file", path=path, remedy=f"{meant}shipped are {', '.join(names)}"
    )


def model_name(path: Path | None) -> str:
    """How messages call a model."""
    return find_model(path).name


def load_land_cover(path: Path | None, device: str = "auto") -> LandCoverModel:
    """A land-cover model from its file; None is the shipped one. One is kept, however many scenes it maps."""
    chosen = find_model(path)
    if not os.path.lexists(chosen):
        raise _no_such_model(chosen)
    with model_errors(chosen):
        return _loaded(chosen, resolve_device(device), chosen.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _loaded(path: Path, device: str, written_ns: int) -> LandCoverModel:
    # Not from `train`, which imports a second's worth of libraries.
    from p3vae.models.landcover.model import load_model

    return load_model(path, device=device)


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
