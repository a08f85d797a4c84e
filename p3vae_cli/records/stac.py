"""A STAC 1.1 item of the products of a run, beside its manifest.

Extensions: projection, raster, classification, processing. Nothing in an item depends on when it is written.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from p3vae.cli.errors import ProductError, UsageError
from p3vae.cli.rasters.areas import pixel_area_m2
from p3vae.cli.rasters.files import RasterSink
from p3vae.cli.rasters.footprint import footprint
from p3vae.cli.records.manifest import Provenance, finite, sha256
from p3vae.cli.scenes.base import Grid, Scene
from p3vae.cli.styles.rasters import Categories

if TYPE_CHECKING:
    import pystac
    from pystac.extensions.classification import Classification
    from pystac.extensions.raster import RasterBand

PROCESSING = "https://stac-extensions.github.io/processing/v1.2.0/schema.json"
"""pystac has no class for this extension."""
_JSON = "application/json"
_MEDIA = {
    ".tif": "image/tiff; application=geotiff; profile=cloud-optimized",
    ".gpkg": "application/geopackage+sqlite3",
    ".geojson": "application/geo+json",
}
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
"""Before any scene."""
_ITEM_END, _COLLECTION = "_stac.json", "_collection.json"


def require_pystac() -> None:
    """Refuse to begin what pystac is needed for in the end."""
    if importlib.util.find_spec("pystac") is None:
        raise UsageError("--stac needs the library pystac", remedy="pip install 'p3vae[stac]'")


def item_name(manifest: str, command: str) -> str:
    """Name of the item of a command's products."""
    return f"{manifest.removesuffix('_p3vae.json')}_{command}{_ITEM_END}"


def item_pattern(command: str) -> str:
    """Matches the names of all items of a command."""
    return f"*_{command}{_ITEM_END}"


def collection_name(command: str) -> str:
    """Name of the collection of a command's items."""
    return f"{command}{_COLLECTION}"


def collection_id(command: str) -> str:
    """The same wherever the folder lies."""
    return f"p3vae-{command}"


def require_stac(path: Path, **expected: str) -> None:
    """Refuse to replace a file that is no STAC document of ours, as `expected` of its members."""
    if not os.path.lexists(path):
        return
    try:
        document = json.loads(path.read_bytes())
        ours = "stac_version" in document and expected.items() <= document.items()
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        ours = False
    if not ours:
        raise ProductError("is no STAC file that p3vae wrote", path=path, remedy="rename it first")


def stac_item(
    scene: Scene,
    provenance: Provenance,
    model_sha256: str | None,
    sinks: Sequence[RasterSink],
    listed: Sequence[Mapping[str, Any]],
    path: Path,
    collection: Path,
) -> bytes:
    """The JSON text of the item that will be at `path`; `listed` are the records of all files beside it."""
    import pystac
    from pystac.extensions.projection import ProjectionExtension

    command = provenance.command_name
    stem = path.name.removesuffix(item_name("", command))
    grid, place = sinks[0].grid, footprint(sinks[0].grid)
    item = pystac.Item(
        id=_relative(path, collection.parent).replace("/", "_").removesuffix(_ITEM_END),
        geometry=place.geometry if place else None,
        bbox=place.bbox if place else None,
        **_time(scene),
        properties=_properties(scene, provenance, model_sha256),
        stac_extensions=[PROCESSING],
        collection=collection_id(command),
    )
    _describe_grid(ProjectionExtension.ext(item, add_if_missing=True), grid)
    rasters = {sink.name: sink for sink in sinks}
    for record in listed:
        key, asset = _asset(item, record, stem, rasters.get(record["file"]))
        item.add_asset(key, asset)
    manifest = f"./{stem}_p3vae.json"
    item.add_asset("manifest", pystac.Asset(manifest, "Record of the run", None, _JSON, ["metadata"]))
    for rel in ("root", "parent", "collection"):
        item.add_link(pystac.Link(rel, _relative(collection, path.parent), _JSON))
    item.add_link(pystac.Link("derived_from", _relative(scene.path, path.parent), title=scene.product))
    document = item.to_dict(include_self_link=False, transform_hrefs=False)
    return json.dumps(finite(document), indent=1, ensure_ascii=False).encode() + b"\n"


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.absolute(), folder.absolute())).as_posix()


def file_record(path: Path) -> dict[str, Any]:
    """What the manifest lists of a written item."""
    return {
        "file": path.name,
        "description": "STAC item",
        "size": path.stat().st_size,
        "sha256": sha256(path),
    }


def _time(scene: Scene) -> dict[str, Any]:
    """Of acquisition; where it is unknown, an interval that holds it for sure."""
    known = scene.acquisition.time
    if known is not None:
        return {"datetime": known.astimezone(UTC)}
    written = max((file.modified_ns for file in scene.files), default=0)
    end = datetime.fromtimestamp(written // 10**9, UTC)
    return {"datetime": None, "start_datetime": min(_FIRST, end), "end_datetime": end}


def _properties(scene: Scene, provenance: Provenance, model_sha256: str | None) -> dict[str, Any]:
    command = provenance.command_name
    with_model = f" with the model {model_sha256}" if model_sha256 else ""
    return {
        "title": f"{command} of {scene.path.name}",
        "processing:lineage": f"p3vae {command} of {scene.product} {scene.quantity}{with_model}",
        "processing:software": {"p3vae": provenance.version},
    }


def _describe_grid(projection: Any, grid: Grid) -> None:
    """A swath has a shape only: its pixels lie on no map grid."""
    projection.shape = [grid.height, grid.width]
    if grid.transform is None or grid.crs is None:
        return
    authority = grid.crs.to_authority()
    projection.code = ":".join(authority) if authority else None
    if authority is None:
        projection.wkt2 = grid.crs.to_wkt(version="WKT2_2019")
    projection.transform = [float(value) for value in tuple(grid.transform)[:6]]


def _asset(
    item: pystac.Item, record: Mapping[str, Any], stem: str, sink: RasterSink | None
) -> tuple[str, pystac.Asset]:
    """Key and asset of a file of the manifest; `sink` is where its pixels went, for a map of the run."""
    import pystac
    from pystac.extensions.classification import ClassificationExtension
    from pystac.extensions.raster import RasterExtension

    name = str(record["file"])
    path = Path(name)
    key = path.stem.removeprefix(f"{stem}_")
    asset = pystac.Asset(f"./{name}", record.get("description"), None, _MEDIA.get(path.suffix), ["data"])
    asset.set_owner(item)
    if sink is not None:
        asset.extra_fields["bands"] = [{"name": band} for band in sink.spec.band_descriptions or (key,)]
        RasterExtension.ext(asset, add_if_missing=True).bands = _bands(sink)
    if "classes" in record:
        classes = _classes(record["classes"])
        ClassificationExtension.ext(asset, add_if_missing=True).classes = classes
    return (path.name.removeprefix(f"{stem}_") if key in item.assets else key), asset


def _bands(sink: RasterSink) -> list[RasterBand]:
    from pystac.extensions.raster import DataType, NoDataStrings, RasterBand, Statistics

    spec, area = sink.spec, pixel_area_m2(sink.grid)
    found = []
    for of_band in sink.statistics:
        shown = (
            None
            if isinstance(spec.style, Categories) or not of_band.count
            else Statistics.create(
                minimum=of_band.minimum,
                maximum=of_band.maximum,
                mean=of_band.mean,
                stddev=of_band.std,
                valid_percent=round(100.0 * of_band.count / (sink.grid.width * sink.grid.height), 4),
            )
        )
        found.append(
            RasterBand.create(
                nodata=NoDataStrings.NAN if math.isnan(spec.nodata) else spec.nodata,
                data_type=DataType(spec.dtype),
                spatial_resolution=round(math.sqrt(area), 3) if area else None,
                statistics=shown,
                unit=spec.unit or None,
            )
        )
    return found


def _classes(extents: Sequence[Mapping[str, Any]]) -> list[Classification]:
    from pystac.extensions.classification import Classification

    named = [
        classification(extent["id"], extent["name"], extent["color"], extent["pixels"]) for extent in extents
    ]
    return [Classification.create(value=0, name="nodata", title="no data", nodata=True), *named]


def classification(value: int, name: str, colour: str, pixels: int | None = None) -> Classification:
    """A class of the extension; `colour` is #rrggbb. Its machine name has letters, digits, - and _ only."""
    from pystac.extensions.classification import Classification

    return Classification.create(
        value=value,
        name=re.sub("[^0-9A-Za-z-]+", "_", name).strip("_") or f"class_{value}",
        title=name,
        color_hint=colour.removeprefix("#").upper(),
        count=pixels,
    )
