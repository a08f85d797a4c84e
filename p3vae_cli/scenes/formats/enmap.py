"""EnMAP L1B, L1C and L2A: a GeoTIFF whose meaning is in the XML beside it.

L1B holds two images, one per detector, whose pixels do not cover the same ground: the detectors look about
20 lines apart. Each image is a scene of its own, on the detector grid; they are not stacked.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import numpy.typing as npt
import rasterio

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.base import Acquisition, FloatArray, Grid, Quantity, RawScene, reading
from p3vae.cli.scenes.flags import Flags
from p3vae.cli.scenes.formats.enmap_geometry import geolocator
from p3vae.cli.scenes.formats.rasters import RasterCube, grid_of, open_raster
from p3vae.cli.scenes.formats.swaths import centre_of, located_grid
from p3vae.cli.scenes.identity import FileIdentity
from p3vae.cli.scenes.metadata import utc_time
from p3vae.cli.scenes.registry import Candidate, Driver
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.scenes.xml import parse_xml

_IMAGE = re.compile(r"(?P<scene>ENMAP.*)-SPECTRAL_IMAGE(?P<detector>_VNIR|_SWIR)?\.TIFF?", re.IGNORECASE)
_METADATA = re.compile(r"(?P<scene>ENMAP.*)-METADATA\.XML", re.IGNORECASE)
_PER_NM_TO_PER_UM = 1000.0
_ORBIT_KM, _EARTH_RADIUS_KM = 650.0, 6371.0
_FLAGS = {"cloud": "CLOUD", "cirrus": "CIRRUS"}
"""Of the quality layers beside the image; haze, snow and shadow of clouds are ground that can be mapped."""
_FILL = {"L1B": 0.0, "L1C": 0.0, "L2A": -32768.0}


def _matches(candidate: Candidate) -> bool:
    name = candidate.path.name
    return candidate.is_tiff_or_xml and bool(_IMAGE.fullmatch(name) or _METADATA.fullmatch(name))


def _open(path: Path, options: SceneSettings) -> RawScene:
    """From the image or the metadata; the other one must lie beside it."""
    image, metadata = _image_and_metadata(path)
    root = _parse(metadata)
    source = open_raster(image)
    try:
        with reading(metadata):
            return _raw_scene(image, metadata, root, source)
    except BaseException:
        source.close()
        raise


def _raw_scene(image: Path, metadata: Path, root: ET.Element, source: rasterio.DatasetReader) -> RawScene:
    level, detector = _level(root, metadata), _detector(image)
    if (level == "L1B") != bool(detector):
        raise _two_images(image)
    bands = _bands_of(root, metadata, detector)
    centre, fwhm, gain, offset = _band_table(bands)
    if source.count != len(centre):
        raise SceneError(
            f"has {source.count} bands, but its metadata describes {len(centre)}",
            path=image,
            remedy="use image and METADATA.XML of the same product",
        )
    quantity: Quantity = "reflectance" if level == "L2A" else "radiance"
    factor = 1.0 if quantity == "reflectance" else _PER_NM_TO_PER_UM
    locate = geolocator(root, int(bands[0].attrib["number"]) - 1) if detector else None
    if detector and locate is None:
        raise SceneError("has no geolocation (RPC)", path=metadata, remedy="download it again")
    grid = grid_of(source) if locate is None else located_grid(locate, source.height, source.width)
    return RawScene(
        path=image,
        level=level,
        grid=grid,
        wavelength_nm=centre,
        fwhm_nm=fwhm,
        good=np.ones(source.count, dtype=bool),
        quantity=quantity,
        acquisition=_acquisition(root, grid),
        block_shape=source.block_shapes[0],
        reader=RasterCube(source, gain * factor, offset * factor, _FILL[level]),
        geolocator=locate,
        flags=_flags(image, grid),
    )


def _image_and_metadata(path: Path) -> tuple[Path, Path]:
    """Image and metadata: the names differ in their ending only, in either case."""
    match = _IMAGE.fullmatch(path.name) or _METADATA.fullmatch(path.name)
    if match is None:
        raise SceneError("has no EnMAP file name", path=path, remedy="keep the names of the delivery")
    names = {file.name.upper(): file for file in path.parent.iterdir()}
    scene, detector = match["scene"].upper(), _detector(path).upper()
    if not detector and f"{scene}-SPECTRAL_IMAGE_SWIR.TIF" in names:
        raise _two_images(path)
    image = names.get(f"{scene}-SPECTRAL_IMAGE{detector}.TIF") or names.get(
        f"{scene}-SPECTRAL_IMAGE{detector}.TIFF"
    )
    metadata = names.get(f"{scene}-METADATA.XML")
    if metadata is None:
        raise SceneError(
            "has no METADATA.XML beside it", path=path, remedy=f"put {scene}-METADATA.XML beside it"
        )
    if image is None:
        raise SceneError(
            "has no image beside it", path=path, remedy=f"put {scene}-SPECTRAL_IMAGE.TIF beside it"
        )
    return image, metadata


def _detector(path: Path) -> str:
    """The end of an L1B image's name that says which detector saw it; empty for other files."""
    match = _IMAGE.fullmatch(path.name)
    return "" if match is None else match["detector"] or ""


def _parse(path: Path) -> ET.Element:
    with reading(path):
        FileIdentity.of(path)
        content = path.read_bytes()
    try:
        return parse_xml(content)
    except ValueError as error:
        raise SceneError(f"{error}", path=path, remedy="download it again") from error


def _level(root: ET.Element, path: Path) -> str:
    level = _text(root, "base/level").upper()
    if level not in _FILL:
        raise SceneError(f"is EnMAP {level}", path=path, remedy="order the scene as L1B, L1C or L2A")
    return level


def _bands_of(root: ET.Element, path: Path, detector: str) -> list[ET.Element]:
    """The bands of an image in their order, VNIR before SWIR.

    The full path matters: `bandID` occurs in two other lists of the same file.
    """
    bands = root.findall("specific/bandCharacterisation/bandID")
    if not bands:
        raise SceneError("describes no bands", path=path, remedy="download it again")
    bands.sort(key=lambda band: int(band.attrib["number"]))
    if not detector:
        return bands
    first = int(_text(root, "product/image/vnir/channels"))
    return bands[:first] if detector.upper() == "_VNIR" else bands[first:]


def _band_table(bands: list[ET.Element]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Centre [nm], width [nm], gain and offset."""
    names = ("wavelengthCenterOfBand", "FWHMOfBand", "GainOfBand", "OffsetOfBand")
    centre, fwhm, gain, offset = (np.array([float(_text(band, name)) for band in bands]) for name in names)
    return centre, fwhm, gain, offset


def _acquisition(root: ET.Element, grid: Grid) -> Acquisition:
    longitude, latitude = centre_of(grid)
    return Acquisition(
        sun_zenith_deg=90.0 - float(_text(root, "specific/sunElevationAngle/center")),
        sun_azimuth_deg=float(_text(root, "specific/sunAzimuthAngle/center")),
        view_zenith_deg=_view_zenith(root),
        time=utc_time(root.findtext("base/temporalCoverage/startTime")),
        longitude_deg=longitude,
        latitude_deg=latitude,
    )


def _view_zenith(root: ET.Element) -> float | None:
    """Angle between the vertical of the ground and the satellite [degree]; None if the file does not say.

    The file has angles at the satellite, which the curvature of the Earth makes smaller than that.
    """
    reported = [root.findtext(f"specific/{name}OffNadirAngle/center") for name in ("across", "along")]
    if None in reported:
        return None
    off_nadir = math.atan(math.hypot(*(math.tan(math.radians(float(angle or 0.0))) for angle in reported)))
    return math.degrees(math.asin(math.sin(off_nadir) * (1.0 + _ORBIT_KM / _EARTH_RADIUS_KM)))


def _text(element: ET.Element, name: str) -> str:
    text = element.findtext(name)
    if text is None:
        raise KeyError(f"{name} is missing")
    return text.strip()


def _two_images(path: Path) -> SceneError:
    return SceneError(
        "is EnMAP L1B, two images whose pixels do not cover the same ground",
        path=path,
        remedy="give its ...-SPECTRAL_IMAGE_SWIR.TIF for methane, or order the scene as L1C or L2A",
    )


def _flag_files(image: Path) -> dict[str, Path]:
    """The layers that lie beside an image on its grid, by what they flag; those of L1B fit neither image."""
    match = _IMAGE.fullmatch(image.name)
    if match is None or match["detector"]:
        return {}
    names = {file.name.upper(): file for file in image.parent.iterdir()}
    stem = f"{match['scene'].upper()}-QL_QUALITY_"
    found = {flag: names.get(f"{stem}{end}.TIF") for flag, end in _FLAGS.items()}
    return {flag: file for flag, file in found.items() if file is not None}


def _flags(image: Path, grid: Grid) -> Flags | None:
    def layer(path: Path) -> Callable[[Window], npt.NDArray[Any]]:
        with open_raster(path) as source:
            if source.shape != (grid.height, grid.width):
                raise SceneError(
                    f"has {source.width} x {source.height} pixels, its image {grid.width} x {grid.height}",
                    path=path,
                    remedy="use files of one product",
                )

        def read(window: Window) -> npt.NDArray[Any]:
            with reading(path), open_raster(path) as source:
                return np.asarray(source.read(1, window=window.slices))

        return read

    return Flags.of({flag: layer(path) for flag, path in _flag_files(image).items()})


def _files(path: Path) -> tuple[Path, ...]:
    image, metadata = _image_and_metadata(path)
    return image, metadata, *_flag_files(image).values()


DRIVER = Driver("EnMAP", _matches, _open, _files)
