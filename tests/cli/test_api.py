"""`import p3vae`: the work of the commands as functions, results with grid, legend and units."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import rasterio
import rioxarray  # noqa: F401 - adds `.rio`

import p3vae
from p3vae.cli.scenes.tiling import Window

SAMPLES = Path("sample_data")


@pytest.fixture(scope="module")
def town(tmp_path_factory):
    """The scene, a random forest trained by `p3vae.train`, and its maps."""
    folder = tmp_path_factory.mktemp("api")
    model = p3vae.train(
        SAMPLES / "town.tif", SAMPLES / "town_labels.gpkg", folder / "m.p3vae", model="random-forest", seed=1
    )
    with p3vae.open_scene(SAMPLES / "town.tif") as scene:
        yield folder, scene, p3vae.classify(scene, model, probabilities=True)


def test_maps_have_legend_units_and_grid(town) -> None:
    _, scene, maps = town
    assert set(maps) == {"landcover", "confidence", "probabilities"}
    assert maps["landcover"].shape == (144, 144) and maps["probabilities"].shape == (6, 144, 144)
    assert maps.legend[int(maps["landcover"][10, 10])] in {
        "asphalt",
        "bare soil",
        "gravel",
        "tile",
        "vegetation",
    }
    assert maps.units["confidence"] == "1" and maps.grid == scene.grid
    assert repr(maps).startswith("<Maps of town.tif") and "<img" in maps._repr_html_()


def test_a_loaded_model_gives_the_same(town) -> None:
    folder, scene, maps = town
    again = p3vae.classify(scene, p3vae.load_model(folder / "m.p3vae"))
    assert np.array_equal(again["landcover"], maps["landcover"])


def test_saved_maps_are_those_of_the_command(town, tmp_path) -> None:
    _, _, maps = town
    paths = maps.save(tmp_path / "maps")
    assert paths[0].name == "town_landcover.tif"
    with rasterio.open(paths[0]) as source:
        assert np.array_equal(source.read(1), maps["landcover"])
        assert source.crs.to_epsg() == 32631 and source.tags()["P3VAE_SCENE"] == "town.tif"
    assert paths[0].with_suffix(".qml").is_file()
    with pytest.raises(OSError, match="exists already"):
        maps.save(tmp_path / "maps")


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # rioxarray multiplies transforms with *
def test_xarray_is_ready_for_rioxarray(town) -> None:
    _, scene, maps = town
    data = maps.to_xarray()
    assert data.rio.crs.to_epsg() == 32631 and data.rio.transform() == scene.grid.transform
    assert float(data["landcover"].x[0]) == pytest.approx(scene.grid.transform.c + 0.5)
    assert data["confidence"].attrs["units"] == "1"
    spectra = p3vae.scene_to_xarray(scene, Window(10, 20, 5, 6))
    assert spectra.shape == (5, 6, 80) and spectra.rio.crs.to_epsg() == 32631
    assert np.allclose(spectra.values, scene.read(Window(10, 20, 5, 6)).values, equal_nan=True)
    assert float(spectra.x[0]) == pytest.approx(scene.grid.transform.c + 20.5)


def test_methane_of_a_swath_as_arrays() -> None:
    with p3vae.open_scene(next(SAMPLES.glob("PRS_L1*.he5"))) as scene:
        maps = p3vae.invert_methane(scene, method="mf")
    assert maps.units["methane"] == "ppm m" and maps["methane"].max() > 5000
    assert "quality" in maps.to_xarray()


def test_names_complete_and_unknown_ones_are_refused() -> None:
    assert {"open_scene", "load_model", "train", "classify", "irradiance", "invert_methane"} <= set(
        dir(p3vae)
    )
    with pytest.raises(AttributeError, match="no attribute 'clasify'"):
        _ = p3vae.clasify


def test_scenes_and_models_are_short_in_print(town) -> None:
    _, scene, _ = town
    assert repr(scene).startswith("<Scene town.tif: GeoTIFF, 144 x 144 pixels, 80 bands from ")
    assert len(repr(p3vae.load_model("earth"))) < 400


def test_a_pixel_is_explained_and_a_map_assessed_in_python(town, tmp_path) -> None:
    _, scene, maps = town
    found = p3vae.explain(scene, p3vae.load_model("town"), pixel=(20, 30))
    assert found.fits[0].probability >= found.fits[1].probability and found.place.row == 30
    with pytest.raises(p3vae.cli.errors.UsageError, match="give at=X,Y or pixel=COL,ROW"):
        p3vae.explain(scene, p3vae.load_model("town"))
    path = maps.save(tmp_path)[0]
    assert p3vae.assess(path, SAMPLES / "town_class.tif").score.overall > 0.7


def test_a_picture_of_a_scene(town) -> None:
    _, scene, _ = town
    picture = p3vae.rgb(scene, size=72)
    assert picture.shape == (72, 72, 4) and picture.dtype == np.uint8 and len(np.unique(picture)) > 50
