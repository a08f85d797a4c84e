"""Files, screens and commands around the models; `open_scene`, `load_model` and `classify` for notebooks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from p3vae.cli.api import classify, load_model
    from p3vae.cli.scenes import open_scene

__all__ = ["classify", "load_model", "open_scene"]

_HOMES = {"classify": "api", "load_model": "api", "open_scene": "scenes"}


def __getattr__(name: str) -> Any:
    """Import on first use, so that the command line does not pay for it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
