"""Telling product families apart by content, and opening the scene."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from p3vae.cli.errors import SceneError
from p3vae.cli.scenes.assemble import assemble
from p3vae.cli.scenes.base import Product, Scene, reading
from p3vae.cli.scenes.drivers import TIFF
from p3vae.cli.scenes.formats import emit, enmap, envi, geotiff, prisma, tanager
from p3vae.cli.scenes.formats.hdf5 import open_hdf5
from p3vae.cli.scenes.identity import FileIdentity, identify
from p3vae.cli.scenes.settings import SceneSettings

_HDF5, _ZIP = b"\x89HDF\r\n\x1a\n", b"PK\x03\x04"
_KNOWN = "give a GeoTIFF, ENVI, PRISMA, EnMAP, EMIT or Tanager file"
_BESIDE = (".aux.xml", ".msk")
"""Ends of files that GDAL reads with an image, and that change its values or its place."""
_CALIBRATED = ("PRISMA", "EnMAP", "EMIT", "Tanager")
"""Products that state how their counts become physical values."""


def open_scene(path: str | Path, overrides: SceneSettings | None = None) -> Scene:
    """Opens a scene of any supported product; pixels stay in the file until `Scene.read`.

    Close it, or use it in a `with` statement. Raises SceneError, which names file, problem and remedy.
    """
    path, options = Path(path), overrides or SceneSettings()
    start = _start(path)
    with reading(path):
        files = identify(scene_files(path))
        product = _open_product(path, start, options)
        if product.name in _CALIBRATED:
            _refuse_calibration(product, options)
        return replace(assemble(product, options), files=files)


def scene_files(path: Path) -> tuple[Path, ...]:
    """The files that a scene is read from: its image first, then those beside it that describe it."""
    if enmap.is_enmap(path):
        return enmap.image_and_metadata(path)
    with reading(path), path.open("rb") as file:
        start = file.read(8)
    if start.startswith(_HDF5):
        observation = emit.observation_file(path)
        return (path,) if observation in (None, path) else (path, observation)
    header = None if start.startswith((_ZIP, *TIFF)) else envi.header_of(path)
    image = envi.data_of(path) if header == path else path
    beside = (header, *(image.with_name(f"{image.name}{end}") for end in _BESIDE))
    return (image, *(file for file in beside if file is not None and file.is_file()))


def _start(path: Path) -> bytes:
    """The first bytes of a file that may be a scene."""
    with reading(path):
        if path.is_dir():
            raise SceneError("is a folder", path=path, remedy="give the image or product file in it")
        FileIdentity.of(path)
        with path.open("rb") as file:
            start = file.read(512)
    if not _is_utf8(path):  # GDAL takes no other names
        raise SceneError("has a name that is not UTF-8", path=path, remedy="rename the file or its folder")
    if not start:
        raise SceneError("is empty", path=path, remedy="copy or download it again")
    return start


def _open_product(path: Path, start: bytes, options: SceneSettings) -> Product:
    if start.startswith(_HDF5):
        return _open_hdf5_product(path)
    if start.startswith(_ZIP):
        return prisma.open_product(path)
    if start.startswith(TIFF) or start.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"<"):
        return enmap.open_product(path) if enmap.is_enmap(path) else geotiff.open_product(path, options)
    if envi.header_of(path) is not None:
        return envi.open_product(path, options)
    return geotiff.open_product(path, options)


def _is_utf8(path: Path) -> bool:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def _open_hdf5_product(path: Path) -> Product:
    with open_hdf5(path) as file:
        is_tanager = tanager.is_tanager(file)
        is_prisma, is_emit = "HDFEOS" in file, "sensor_band_parameters" in file
    if is_tanager:
        return tanager.open_product(path)
    if is_prisma:
        return prisma.open_product(path)
    if is_emit:
        return emit.open_product(path)
    raise SceneError("is an HDF5 file of another kind", path=path, remedy=_KNOWN)


def _refuse_calibration(product: Product, options: SceneSettings) -> None:
    """A contradiction of what the product says of itself is a mistake."""
    problem = None
    if options.quantity not in (None, product.quantity):
        problem = f"holds {product.quantity}, not {options.quantity}"
    elif options.scale is not None or options.nodata is not None:
        problem = f"is a {product.name} product with its own scale and missing value"
    if problem is not None:
        product.reader.close()
        raise SceneError(problem, path=product.path, remedy="leave out --quantity, --scale and --nodata")
