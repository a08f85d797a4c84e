"""Opening a scene: the registry finds the driver, the driver reads the metadata."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.assemble import assemble
from p3vae.cli.scenes.base import RawScene, Scene, reading
from p3vae.cli.scenes.identity import identify
from p3vae.cli.scenes.masking import unflagged
from p3vae.cli.scenes.registry import Candidate, driver_of
from p3vae.cli.scenes.settings import SceneSettings


def open_scene(path: str | Path, overrides: SceneSettings | None = None) -> Scene:
    """Opens a scene of any product there is a driver for; pixels stay in the file until `Scene.read`.

    Close it, or use it in a `with` statement. Raises SceneError, which names file, problem and remedy.
    """
    path, options = Path(path), overrides or SceneSettings()
    with Candidate(path) as candidate:
        _require_usable(candidate)
        driver = driver_of(candidate)
    with reading(path):
        files = identify(driver.files(path))
        raw = driver.open(path, options)
        if driver.calibrated:
            _refuse_calibration(raw, driver.name, options)
        scene = replace(assemble(raw, driver.name, options), files=files)
        return unflagged(scene) if options.quality_mask else scene


def scene_files(path: Path) -> tuple[Path, ...]:
    """The files that a scene is read from: its image first, then those beside it that describe it."""
    with Candidate(path) as candidate:
        return driver_of(candidate).files(path)


def _require_usable(candidate: Candidate) -> None:
    path = candidate.path
    try:
        str(path).encode()
    except UnicodeEncodeError as error:  # GDAL takes no other names
        problem = "has a name that is not UTF-8"
        raise SceneError(problem, path=path, remedy="rename the file or its folder") from error
    if not candidate.start:
        raise SceneError("is empty", path=path, remedy="copy or download it again")


def _refuse_calibration(raw: RawScene, product: str, options: SceneSettings) -> None:
    """A contradiction of what the product says of itself is a mistake."""
    problem = None
    if options.quantity not in (None, raw.quantity):
        problem = f"holds {raw.quantity}, not {options.quantity}"
    elif options.scale is not None or options.nodata is not None:
        problem = f"is a {product} product with its own scale and missing value"
    if problem is not None:
        raw.reader.close()
        raise SceneError(problem, path=raw.path, remedy="leave out --quantity, --scale and --nodata")
