"""Commands that make the same map of the same scene share it; anything else is not replaced."""

from __future__ import annotations

import geopandas
import numpy as np
import rasterio

from tests.cli.calls import refusal, run


def light(folder) -> np.ndarray:
    with rasterio.open(folder / "town_irradiance.tif") as source:
        return source.read(1)


def test_both_orders_of_classify_and_irradiance_map(mapped_town, tmp_path) -> None:
    model = ("-m", mapped_town / "town.p3vae")
    for first, second in (("classify", "irradiance-map"), ("irradiance-map", "classify")):
        out = tmp_path / first
        for number, command in enumerate((first, second, first)):
            done = run(command, mapped_town / "town.tif", *model, "-o", out)
            assert done.exit_code == 0, done.output
            assert ("skipped" in done.stderr) == (number == 2 and first == "classify")
            if number == 0:
                before = light(out)
        assert np.array_equal(before, light(out))
        assert run("verify", out).exit_code == 0
        assert (out / "town_landcover.tif").is_file()


def test_what_would_differ_is_not_replaced(mapped_town, tmp_path) -> None:
    scene, model = mapped_town / "town.tif", ("-m", mapped_town / "town.p3vae")
    assert run("classify", scene, *model, "-o", tmp_path).exit_code == 0
    before = light(tmp_path)
    call = ("irradiance-map", scene, "-o", tmp_path)
    assert "exists already" in refusal(1, *call, *model, "--aod", 0.1)
    assert "exists already" in refusal(1, *call, *model, "--bbox", "373000,4829980,373030,4830000")
    assert np.array_equal(before, light(tmp_path))


def test_the_smoothed_map_and_its_polygons_are_products(mapped_town, tmp_path) -> None:
    """The same as the commands smooth and polygons make, in one transaction with the map."""
    out, scene = tmp_path / "out", mapped_town / "town.tif"
    call = (
        "classify",
        scene,
        "-m",
        mapped_town / "town.p3vae",
        "-o",
        out,
        "--smooth",
        2,
        "--polygons",
        "--qgis",
    )
    done = run(*call)
    assert done.exit_code == 0, done.output
    assert run("smooth", out / "town_landcover.tif", "-o", tmp_path / "s.tif", "--radius", 2).exit_code == 0
    with rasterio.open(out / "town_landcover_smooth.tif") as own, rasterio.open(tmp_path / "s.tif") as other:
        assert np.array_equal(own.read(1), other.read(1)) and own.colormap(1) == other.colormap(1)
        values = own.read(1)
    patches = geopandas.read_file(out / "town_landcover_polygons.gpkg")
    assert patches["pixels"].sum() == (values > 0).sum()
    assert {"class", "hectares"} <= set(patches.columns) and (out / "town_landcover_polygons.qml").is_file()
    assert run("verify", out).exit_code == 0 and "skipped" in run(*call).stderr
    (out / "town_landcover_polygons.gpkg").unlink()
    assert run("verify", out).exit_code != 0
    assert "lists a run that differs" in refusal(1, *call[:-4])
