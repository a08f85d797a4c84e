"""The registry of land-cover estimators: which names there are, and the class behind each.

Tables name our own model and those of the paper. Beside them, a module or package in `baselines/` is a model:
`random_forest.py` is `random-forest`. Each module has an attribute `ESTIMATOR`, a class that satisfies the
protocol `p3vae.models.landcover.estimator.Estimator`. Listing the names imports none of them, and no torch.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from p3vae.models.landcover.estimator import Estimator
    from p3vae.models.landcover.types import TrainingSettings

_BUILT_IN = {"p3vae": "p3vae.models.landcover.library.estimator"}
_PAPER = {
    "gaussian-vae": "p3vae.paper.landcover.gaussian",
    "guided-vae": "p3vae.paper.landcover.guided",
    "cnn": "p3vae.paper.landcover.cnn",
    "fg-unet": "p3vae.paper.landcover.fg_unet",
    "ss-infogan": "p3vae.paper.landcover.ss_infogan",
}
"""Models that the published tables compare p3VAE with."""
_SHIPPED = {"earth": "p3vae.models.landcover.library.materials"}
"""Models that come with the package and are not trained on labels."""
_PRESETS = {("p3vae", "paper"): "p3vae.paper.landcover.published"}
"""By name and preset, where a preset is a class of its own."""
_BASELINES = Path(__file__).parent / "baselines"


class UnknownModelError(ValueError):
    """A name that no estimator has."""


def estimator_names() -> tuple[str, ...]:
    """Names of all models that can be trained, ours first."""
    modules = pkgutil.iter_modules([str(_BASELINES)])
    baselines = (module.name.replace("_", "-") for module in modules)
    return (*_BUILT_IN, *sorted((*_PAPER, *baselines)))


def estimator_type(settings: TrainingSettings) -> type[Estimator]:
    """The class of estimator that these settings ask for."""
    name = settings.model
    if name not in (*estimator_names(), *_SHIPPED):
        raise UnknownModelError(f"no model is called {name!r}; there are {', '.join(estimator_names())}")
    baseline = f"p3vae.models.landcover.baselines.{name.replace('-', '_')}"
    home = _PRESETS.get((name, settings.preset)) or (_BUILT_IN | _PAPER | _SHIPPED).get(name, baseline)
    found: type[Estimator] = import_module(home).ESTIMATOR
    return found


def learns_from_images(settings: TrainingSettings) -> bool:
    """Whether the estimator that these settings ask for learns from image patches."""
    return hasattr(estimator_type(settings), "halo")


def may_average_neighbours(settings: TrainingSettings) -> bool:
    """Whether the maps of the estimator that these settings ask for may be averaged over neighbours."""
    return hasattr(estimator_type(settings), "averages_neighbours")
