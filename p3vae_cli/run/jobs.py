"""The mapping commands as jobs: what is asked of every scene, and how a plan is made for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from p3vae.cli.console import StepProgress
from p3vae.cli.run.mapping import Job, Plan, Planner

if TYPE_CHECKING:
    from p3vae.cli.landcover.extras import LandCoverExtras
    from p3vae.cli.landcover.irradiance import IrradianceOptions
    from p3vae.cli.landcover.maps import ClassifyOptions
    from p3vae.cli.methane.fit import MethaneOptions
    from p3vae.cli.scenes.base import Scene


@dataclass(frozen=True)
class BrightnessJob(Job):
    """`p3vae brightness`."""

    command: ClassVar[str] = "brightness"
    bytes_per_pixel: ClassVar[int] = 4

    @property
    def values_per_second(self) -> float:
        """See `Job`."""
        return 2e8

    def request(self) -> dict[str, Any]:
        """See `Job`."""
        return {}

    def planner(self) -> Planner:
        """See `Job`."""
        from p3vae.cli.run.brightness import brightness_function, brightness_specs

        return lambda scene: Plan(brightness_function(scene), brightness_specs(scene))


@dataclass(frozen=True)
class ClassifyJob(Job):
    """`p3vae classify`."""

    model: Path | None
    device: str
    options: ClassifyOptions
    extras: LandCoverExtras | None = None

    command: ClassVar[str] = "classify"
    bytes_per_pixel: ClassVar[int] = 13

    @property
    def values_per_second(self) -> float:
        """See `Job`."""
        return _posterior_rate(self.model)

    def request(self) -> dict[str, Any]:
        """See `Job`."""
        from p3vae.cli.landcover.model_files import find_model

        more = {} if self.extras is None else self.extras.request()
        return {"model": find_model(self.model), **asdict(self.options), **more}

    def planner(self) -> Planner:
        """See `Job`."""
        from p3vae.cli.landcover.maps import classify_plan
        from p3vae.cli.landcover.model_files import load_land_cover, model_name

        loaded, name = load_land_cover(self.model, self.device), model_name(self.model)
        if self.extras is None:
            return lambda scene: classify_plan(scene, loaded, self.options, name)
        extras = self.extras
        return lambda scene: extras.added_to(classify_plan(scene, loaded, self.options, name))

    @property
    def land_cover_model(self) -> Path | None:
        """See `Job`."""
        return self.model

    @property
    def remark(self) -> str:
        """See `Job`."""
        from p3vae.cli.landcover.model_files import find_model

        if self.model is not None:
            return ""
        name = find_model(None).stem
        return f'no --model was given: the shipped one, {name}, maps broad classes ("p3vae info {name}")'

    def for_worker(self, number: int) -> ClassifyJob:
        """See `Job`."""
        return replace(self, device=worker_device(self.device, number))


@dataclass(frozen=True)
class IrradianceJob(Job):
    """`p3vae irradiance-map`."""

    model: Path | None
    device: str
    irradiance: IrradianceOptions
    relight: bool
    scene_gain: bool = True

    command: ClassVar[str] = "irradiance-map"
    bytes_per_pixel: ClassVar[int] = 8

    @property
    def values_per_second(self) -> float:
        """See `Job`."""
        return _posterior_rate(self.model)

    def request(self) -> dict[str, Any]:
        """See `Job`."""
        from p3vae.cli.landcover.model_files import find_model

        return {
            "model": find_model(self.model),
            "irradiance": asdict(self.irradiance),
            "relight": self.relight,
            "scene_gain": self.scene_gain,
        }

    def planner(self) -> Planner:
        """See `Job`."""
        from p3vae.cli.landcover.maps import irradiance_plan
        from p3vae.cli.landcover.model_files import load_land_cover, model_name

        loaded = load_land_cover(self.model, self.device)
        name = model_name(self.model)
        return lambda scene: irradiance_plan(
            scene, loaded, self.irradiance, name, relight=self.relight, scene_gain=self.scene_gain
        )

    @property
    def land_cover_model(self) -> Path | None:
        """See `Job`."""
        return self.model

    def for_worker(self, number: int) -> IrradianceJob:
        """See `Job`."""
        return replace(self, device=worker_device(self.device, number))


@dataclass(frozen=True)
class MethaneJob(Job):
    """`p3vae invert-methane`."""

    device: str
    options: MethaneOptions
    show_progress: bool | None = None

    command: ClassVar[str] = "invert-methane"
    bytes_per_pixel: ClassVar[int] = 14
    seconds_per_scene: ClassVar[float] = 6.0  # learns the background

    @property
    def values_per_second(self) -> float:
        """See `Job`."""
        return 6e6 if self.options.method == "p3vae" else 1.5e7

    @property
    def made(self) -> tuple[str, ...]:
        """See `Job`."""
        from p3vae.cli.methane.retrieval import MADE

        return MADE

    @property
    def kept(self) -> Path | None:
        """See `Job`."""
        return self.options.save_model

    def request(self) -> dict[str, Any]:
        """See `Job`. Where the background is kept does not change a map."""
        asked = asdict(self.options)
        del asked["save_model"], asked["overwrite"]
        return asked

    def planner(self) -> Planner:
        """See `Job`."""
        from p3vae.cli.methane.retrieval import methane_plan

        def plan(scene: Scene) -> Plan:
            with StepProgress("learning the background", show=self.show_progress) as progress:
                return methane_plan(scene, self.options, self.device, progress.step)

        return plan

    def after_batch(self, home: Path, folders: Sequence[Path], *, several: bool) -> Sequence[str]:
        """See `Job`: one table of the plumes of all scenes, also kept up to date by runs of single scenes."""
        from p3vae.cli.methane.plume_collection import COLLECTION, collect_plumes

        if not several and not (home / COLLECTION).exists():
            return ()
        path, plumes, scenes = collect_plumes(home, folders)
        return [f"{path}: {plumes} plumes of {scenes} scenes"]

    def for_worker(self, number: int) -> MethaneJob:
        """See `Job`."""
        return replace(self, device=worker_device(self.device, number), show_progress=False)


def _posterior_rate(model: Path | None) -> float:
    """Values per second of one core: the model of libraries has many more components than one of a scene."""
    from p3vae.cli.landcover.model_files import find_model

    return 1.6e7 if find_model(model).stem == "earth" else 5.5e7


def worker_device(device: str, number: int) -> str:
    """The device of one of several processes: they share the GPUs out among themselves."""
    if device not in ("auto", "cuda"):
        return device
    import torch

    count = torch.cuda.device_count()
    return f"cuda:{number % count}" if count else device
