"""The registry of land-cover estimators: which names there are, and the class behind each.

A module or package in `baselines/` is a model: `random_forest.py` is `random-forest`. The module has an
attribute `ESTIMATOR`, a class that satisfies the protocol `p3vae.models.landcover.estimator.Estimator`.
Listing the names imports none of them, and no torch.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p3vae.models.landcover.estimator import Estimator
    from p3vae.models.landcover.types import TrainingSettings

_BUILT_IN = {"p3vae": "library.estimator", "gaussian-vae": "vae.gaussian", "guided-vae": "vae.guided"}
_SHIPPED = {"earth": "library.materials"}
"""Models that come with the package and are not trained on labels."""
_PRESETS = {("p3vae", "paper"): "vae.published"}
"""By name and preset, where a preset is a class of its own."""
_BASELINES = Path(__file__).parent / "baselines"


class UnknownModelError(ValueError):
    """A name that no estimator has."""


def estimator_names() -> tuple[str, ...]:
    """Names of all models that can be trained, ours first."""
    modules = pkgutil.iter_modules([str(_BASELINES)])
    return (*_BUILT_IN, *sorted(module.name.replace("_", "-") for module in modules))


def estimator_type(settings: TrainingSettings) -> type[Estimator]:
    """The class of estimator that these settings ask for."""
    name = settings.model
    if name not in (*estimator_names(), *_SHIPPED):
        raise UnknownModelError(f"no model is called {name!r}; there are {', '.join(estimator_names())}")
    baseline = f"baselines.{name.replace('-', '_')}"
    home = _PRESETS.get((name, settings.preset)) or (_BUILT_IN | _SHIPPED).get(name, baseline)
    found: type[Estimator] = import_module(f"p3vae.models.landcover.{home}").ESTIMATOR
    return found


def learns_from_images(settings: TrainingSettings) -> bool:
    """Whether the estimator that these settings ask for learns from image patches."""
    return hasattr(estimator_type(settings), "halo")


def may_average_neighbours(settings: TrainingSettings) -> bool:
    """Whether the maps of the estimator that these settings ask for may be averaged over neighbours."""
    return hasattr(estimator_type(settings), "averages_neighbours")
