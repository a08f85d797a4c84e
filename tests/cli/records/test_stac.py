"""STAC items of products, read back by pystac.

The core of items and collections is validated against the schemas of STAC 1.1 that pystac brings along. Those
of the extensions lie on the network only: projection, raster and classification are read back by pystac's own
classes here, and their schemas are not checked; nor is processing, for which pystac has no class.
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pystac
import pytest
import rasterio
import shapely
from affine import Affine
from pystac.extensions.classification import ClassificationExtension
from pystac.extensions.mlm import MLMExtension
from pystac.extensions.projection import ProjectionExtension
from pystac.extensions.raster import RasterExtension
from pystac.validation.stac_validator import JsonSchemaSTACValidator

from tests.cli.calls import refusal, run
from tests.cli.kills import killed_at
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags

SAMPLES = Path(__file__).resolve().parents[3] / "sample_data"
IMAGE = fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)


def valid(path: Path) -> dict:
    """The document at `path`, validated against the core of STAC 1.1."""
    document = json.loads(path.read_text())
    kind = pystac.STACObjectType.ITEM if document["type"] == "Feature" else pystac.STACObjectType.COLLECTION
    JsonSchemaSTACValidator().validate_core(document, kind, "1.1.0")
    return document


def raster(path: Path, **place) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return fixtures.raster(path, IMAGE, band_tags=wavelength_tags(WAVELENGTHS), **place)


def test_an_item_describes_every_map_of_a_scene(tmp_path):
    scene, out = shutil.copy(SAMPLES / "town.tif", tmp_path / "town.tif"), tmp_path / "out"
    assert run("classify", scene, "-m", "town", "-o", out, "--probabilities", "--stac").exit_code == 0
    path = out / "town_classify_stac.json"
    document, item = valid(path), pystac.Item.from_file(str(path))
    assert item.datetime is not None and item.datetime.isoformat().startswith("2024-04-02T10:28:37")
    assert document["properties"]["processing:software"] == {"p3vae": version("p3vae")}
    manifest = json.loads((out / "town_p3vae.json").read_text())
    listed = {product["file"] for product in manifest["products"]}
    linked = {Path(asset.href).name for asset in item.assets.values()}
    assert listed - linked == {path.name} and linked - listed == {"town_p3vae.json"}
    assert all(Path(asset.get_absolute_href()).exists() for asset in item.assets.values())
    links = {link["rel"]: (out / link["href"]).resolve() for link in document["links"]}
    assert links["derived_from"] == Path(scene).resolve()
    assert links["root"] == links["parent"] == links["collection"] and links["collection"].is_file()
    with rasterio.open(scene) as source:
        projection = ProjectionExtension.ext(item)
        assert projection.code == source.crs.to_string()
        assert Affine(*projection.transform) == source.transform
        assert tuple(projection.shape) == source.shape
        bounds = rasterio.warp.transform_bounds(source.crs, "EPSG:4326", *source.bounds)
        np.testing.assert_allclose(item.bbox, bounds, atol=2e-6)
    outline = shapely.geometry.shape(item.geometry)
    assert outline.is_valid and outline.exterior.is_ccw
    classes = ClassificationExtension.ext(item.assets["landcover"]).classes
    with rasterio.open(out / "town_landcover.tif") as source:
        values, colours = source.read(1), source.colormap(1)
    for entry in classes[1:]:
        assert entry.count == (values == entry.value).sum()
        assert tuple(bytes.fromhex(entry.color_hint)) == colours[entry.value][:3]
    assert classes[0].value == 0 and classes[0].nodata
    band = RasterExtension.ext(item.assets["irradiance"]).bands[0]
    with rasterio.open(out / "town_irradiance.tif") as source:
        assert band.statistics.mean == pytest.approx(np.nanmean(source.read(1)), rel=1e-5)
        assert (band.data_type, band.nodata, band.unit) == (source.dtypes[0], "nan", source.units[0])
    assert len(RasterExtension.ext(item.assets["probabilities"]).bands) == len(classes) - 1


def test_a_swath_has_the_outline_of_its_control_points_and_plumes_are_assets(tmp_path):
    scene = shutil.copy(next(SAMPLES.glob("PRS_L1*.he5")), tmp_path / "swath.he5")
    out = tmp_path / "out"
    assert run("invert-methane", scene, "--method", "mf", "-o", out, "--stac").exit_code == 0
    item = pystac.Item.from_dict(valid(out / "swath_invert-methane_stac.json"))
    assert ProjectionExtension.ext(item).transform is None
    assert {"methane", "quality", "plume_mask", "plumes"} <= set(item.assets)
    with rasterio.open(out / "swath_methane.tif") as source:
        points = [(point.x, point.y) for point in source.gcps[0]]
    outline = shapely.geometry.shape(item.geometry)
    assert outline.is_valid and outline.buffer(1e-7).contains(shapely.multipoints(points))
    assert outline.area < 1.1 * shapely.multipoints(points).convex_hull.area


def test_a_collection_holds_the_items_of_all_runs_and_of_a_tree(tmp_path):
    scenes = [raster(tmp_path / "in" / month / "scene.tif") for month in ("03", "04", "05")]
    out = tmp_path / "out"
    call = ("brightness", *scenes, "-o", out, "--output-template", "{parent}/{stem}", "--stac", "--json")
    for shard in ("1/2", "2/2"):
        assert run(*call, "--shard", shard).exit_code == 0
    path = out / "brightness_collection.json"
    valid(path)
    collection = pystac.Collection.from_file(str(path))
    items = {item.id: item for item in collection.get_items()}
    assert set(items) == {f"{month}_scene_brightness" for month in ("03", "04", "05")}
    assert all(item.get_collection().id == collection.id for item in items.values())
    np.testing.assert_allclose(collection.extent.spatial.bboxes[0], items["03_scene_brightness"].bbox)
    path.unlink()
    again = run(*call)
    assert again.stdout.count('"skipped"') == 3 and path.exists()
    assert run("verify", out).exit_code == 0


def test_products_without_an_item_differ_from_those_with_one(tmp_path):
    call = ("brightness", raster(tmp_path / "s.tif"), "-o", tmp_path / "out")
    assert run(*call).exit_code == 0
    assert "stac none, now True" in refusal(1, *call, "--stac")


def test_an_item_is_part_of_its_transaction(tmp_path):
    """Killed at any change of names, then run again: the item of an undisturbed run, byte for byte."""
    scene = raster(tmp_path / "s.tif")
    call = ("brightness", scene, "--stac", "-o")
    assert run(*call, tmp_path / "whole").exit_code == 0
    step = 1
    while killed_at(step, partial(run, *call, tmp_path / "out")):
        manifest, item = tmp_path / "out" / "s_p3vae.json", tmp_path / "out" / "s_brightness_stac.json"
        assert item.exists() or not manifest.exists()
        assert run(*call, tmp_path / "out").exit_code == 0
        for name in (item.name, "brightness_collection.json"):
            assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        assert not list((tmp_path / "out").glob(".p3vae*"))
        shutil.rmtree(tmp_path / "out")
        step += 2
    assert step > 8


@pytest.mark.parametrize(
    ("west", "expected"), [(179.9, [179.9, -17.2, -179.8, -17.0]), (-179.9, [-179.9, -17.2, -179.6, -17.0])]
)
def test_a_scene_on_the_antimeridian_is_cut_there(tmp_path, west, expected):
    place = {"transform": Affine(0.01, 0, west, 0, -0.01, -17.0), "crs": "EPSG:4326"}
    assert run("brightness", raster(tmp_path / "s.tif", **place), "-o", tmp_path, "--stac").exit_code == 0
    item = valid(tmp_path / "s_brightness_stac.json")
    np.testing.assert_allclose(item["bbox"], expected, atol=1e-6)
    shape = shapely.geometry.shape(item["geometry"])
    assert shape.is_valid and shape.area == pytest.approx(0.3 * 0.2, rel=1e-4)
    assert len(shapely.get_parts(shape)) == (2 if west > 0 else 1)


def test_a_scene_without_place_and_time_is_still_valid(tmp_path):
    scene = raster(tmp_path / "s.tif", crs=None, transform=Affine.scale(2, -2))
    assert run("brightness", scene, "-o", tmp_path, "--stac").exit_code == 0
    item = valid(tmp_path / "s_brightness_stac.json")
    assert item["geometry"] is None and "bbox" not in item
    assert item["properties"]["datetime"] is None and item["properties"]["end_datetime"] > "2020"
    valid(tmp_path / "brightness_collection.json")


def test_without_pystac_the_way_to_install_it_is_said_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    said = refusal(2, "brightness", raster(tmp_path / "s.tif"), "-o", tmp_path / "out", "--stac")
    assert "pip install 'p3vae[stac]'" in said and not (tmp_path / "out").exists()


@pytest.mark.parametrize("model", ["town", "earth"])
def test_a_model_has_an_item_that_says_what_it_takes_and_gives(tmp_path, model):
    path = tmp_path / f"{model}.json"
    assert run("info", model, "--stac", path).exit_code == 0
    valid(path)
    item, card = pystac.Item.from_file(str(path)), json.loads(run("info", model, "--json").stdout)
    described = MLMExtension.ext(item)
    assert described.tasks == ["classification"] and described.framework == "PyTorch"
    assert described.input[0].input.shape == [-1, len(card["bands"]["wavelength_nm"])]
    assert [entry.title for entry in described.output[0].classes] == card["classes"]["names"]
    asset = item.assets["model"]
    assert Path(asset.get_absolute_href()).samefile(card["path"]) and "mlm:model" in asset.roles
    assert "needs one model" in refusal(2, "info", raster(tmp_path / "s.tif"), "--stac", path)
    weights = shutil.copy(card["path"], tmp_path / "own.p3vae")
    assert "is an input" in refusal(1, "info", weights, "--stac", weights)
