"""The commands as a user calls them: exit codes, streams, JSON, several scenes."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import rasterio
from click.testing import CliRunner

from p3vae.cli.main import main
from p3vae.cli.scenes.opening import open_scene
from tests.cli.calls import run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags

JSON_KEYS = {
    *("product", "level", "width", "height", "crs", "bounds", "pixel_size", "quantity", "unit", "time"),
    *("sun_zenith_deg", "sun_azimuth_deg", "view_zenith_deg", "bands", "valid_fraction"),
}


@pytest.fixture
def scene(tmp_path):
    image = fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)
    image[:5] = np.nan
    return fixtures.raster(tmp_path / "town.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


def test_info_json_has_the_promised_keys_and_true_values(scene):
    done = run("info", scene, "--json", "--sun-zenith", "31.5")
    assert done.exit_code == 0, done.output
    reported = json.loads(done.stdout)
    assert set(reported) >= JSON_KEYS
    with rasterio.open(scene) as source:
        assert reported["bounds"] == list(source.bounds)
        assert reported["crs"] == f"EPSG:{source.crs.to_epsg()}"
        assert reported["pixel_size"] == [source.res[0], source.res[1]]
    assert (reported["width"], reported["height"], reported["quantity"], reported["unit"]) == (
        30,
        20,
        "reflectance",
        "1",
    )
    assert reported["sun_zenith_deg"] == 31.5
    assert reported["valid_fraction"] == pytest.approx(0.75)
    assert [band["wavelength_nm"] for band in reported["bands"]] == pytest.approx(sorted(WAVELENGTHS))


def test_info_on_a_swath_has_no_crs_but_bounds_in_degrees(tmp_path):
    path = fixtures.prisma(tmp_path, "1", fixtures.truth(8, 6, 6, 1, 50), fixtures.truth(8, 6, 6, 1, 50))
    reported = json.loads(run("info", path, "--json").stdout)
    assert (reported["product"], reported["level"], reported["crs"], reported["quantity"]) == (
        "PRISMA",
        "L1",
        None,
        "radiance",
    )
    lon, lat = fixtures.geolocation(8, 6)
    assert reported["bounds"] == pytest.approx([lon.min(), lat.min(), lon.max(), lat.max()], abs=1e-5)


def test_info_table_names_bad_bands_and_unknown_sun(scene):
    done = run("info", scene, "--bad-bands", f"{WAVELENGTHS[0]}")
    assert "Bad bands" in done.stdout
    assert "zenith unknown" in done.stdout


def test_brightness_reports_json_lines_and_writes_a_map(scene, tmp_path):
    done = run("brightness", scene, "-o", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    with rasterio.open(scene) as source, rasterio.open(record["products"]["brightness"]) as made:
        expected = source.read().mean(axis=0)
        np.testing.assert_allclose(made.read(1), expected, rtol=1e-5)
        assert (made.crs, made.transform) == (source.crs, source.transform)
    assert record["valid_pixels"] == 450


def test_an_existing_product_is_an_error_before_any_work(scene, tmp_path):
    out = tmp_path / "out"
    assert run("brightness", scene, "-o", out).exit_code == 0
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    refused = run("brightness", scene, "-o", out, "--no-resume")
    assert refused.exit_code == 1
    assert "exists already" in refused.stderr and "--overwrite" in refused.stderr
    assert {path.name: path.stat().st_mtime_ns for path in out.iterdir()} == before
    assert run("brightness", scene, "-o", out, "--overwrite").exit_code == 0


def test_a_second_run_keeps_the_record_of_other_products(scene, tmp_path):
    out = tmp_path / "out"
    assert run("brightness", scene, "-o", out).exit_code == 0
    (out / "town_brightness.tif").rename(out / "town_other.tif")
    manifest = json.loads((out / "town_p3vae.json").read_text())
    manifest["products"][0]["file"] = "town_other.tif"
    (out / "town_p3vae.json").write_text(json.dumps(manifest))
    for _ in range(2):
        assert run("brightness", scene, "-o", out, "--overwrite").exit_code == 0
    manifest = json.loads((out / "town_p3vae.json").read_text())
    assert [product["file"] for product in manifest["products"]] == ["town_brightness.tif"]
    assert [run["products"][0]["file"] for run in manifest["earlier_runs"]] == ["town_other.tif"]


def test_bbox_gives_the_window_of_the_scenes_grid(scene, tmp_path):
    with rasterio.open(scene) as source:
        x0, y0 = source.transform @ (3, 6)
        x1, y1 = source.transform @ (13, 11)
    bbox = f"{x0},{y1},{x1},{y0}"
    assert run("brightness", scene, "-o", tmp_path / "out", "--bbox", bbox).exit_code == 0
    with rasterio.open(tmp_path / "out" / "town_brightness.tif") as made, rasterio.open(scene) as source:
        assert made.shape == (5, 10)
        np.testing.assert_allclose(made.read(1), source.read()[:, 6:11, 3:13].mean(axis=0), rtol=1e-5)


def test_some_failed_scenes_exit_with_3_and_the_others_are_mapped(scene, tmp_path):
    listing = tmp_path / "list.txt"
    listing.write_text(f"# scenes\n{scene}\n{tmp_path / 'absent.tif'}\n")
    done = run("brightness", f"@{listing}", "-o", tmp_path / "out")
    assert done.exit_code == 3
    assert "absent.tif: no such file" in done.stderr
    assert (tmp_path / "out" / "town_brightness.tif").exists()


def test_scenes_come_from_globs_and_stdin(scene, tmp_path):
    done = run("brightness", tmp_path / "t*n.tif", "-o", tmp_path / "glob")
    assert done.exit_code == 0, done.output
    done = run("brightness", "-", "-o", tmp_path / "stdin", input=f"{scene}\n")
    assert done.exit_code == 0, done.output
    assert run("brightness", tmp_path / "no*.tif").exit_code == 2


def test_config_file_sets_options_and_refuses_unknown_ones(scene, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(
        'overwrite = true\ntile-size = 7\noutput = "OUT"\n'.replace("OUT", str(tmp_path / "out"))
    )
    assert run("brightness", scene, "--config", config).exit_code == 0
    assert run("brightness", scene, "--config", config).exit_code == 0
    config.write_text("colour = 1\n")
    refused = run("brightness", scene, "--config", config)
    assert refused.exit_code == 2
    assert "'colour'" in refused.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--bbox", "1,2,3"], "not four numbers"),
        (["--bbox", "0,0,1,1"], "outside the scene"),
        (["--mem-limit", "lots"], "not a size"),
        (["--co", "COMPRESS"], "NAME=VALUE"),
        (["--bad-bands", "blue"], "not a range"),
    ],
)
def test_wrong_usage_exits_with_2_in_one_line(scene, tmp_path, options, problem):
    done = run("brightness", scene, "-o", tmp_path / "out", *options)
    assert done.exit_code == 2
    assert problem in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_nan_everywhere_is_said(tmp_path):
    image = np.full((9, 9, len(WAVELENGTHS)), np.nan, np.float32)
    path = fixtures.raster(tmp_path / "empty.tif", image, band_tags=wavelength_tags(WAVELENGTHS))
    done = run("brightness", path, "-o", tmp_path / "out")
    assert done.exit_code == 1
    assert "empty.tif" in done.stderr and "valid" in done.stderr
    assert not (tmp_path / "out").exists()


def test_shell_completion_lists_commands():
    environment = {
        **os.environ,
        "_P3VAE_COMPLETE": "bash_complete",
        "COMP_WORDS": "p3vae in",
        "COMP_CWORD": "1",
    }
    done = CliRunner().invoke(main, [], env=environment, prog_name="p3vae")
    assert "plain,info" in done.output


def test_a_mistake_of_the_program_in_one_scene_does_not_lose_the_others(tmp_path, monkeypatch):
    image = fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)
    names = ("a", "b", "c")
    scenes = [
        fixtures.raster(tmp_path / f"{name}.tif", image, band_tags=wavelength_tags(WAVELENGTHS))
        for name in names
    ]

    def opened(path, options):
        if path.stem == "b":
            raise TypeError("nobody\nforesaw this")
        return open_scene(path, options)

    monkeypatch.setattr("p3vae.cli.run.task.open_scene", opened)
    done = run("brightness", *scenes, "-o", tmp_path / "out")
    assert done.exit_code == 3
    assert f"Error: {scenes[1]}: internal error: TypeError: nobody foresaw this" in done.stderr
    assert {path.name for path in (tmp_path / "out").glob("*.tif")} == {
        "a_brightness.tif",
        "c_brightness.tif",
    }
    log = tmp_path / "log.jsonl"
    alone = run("brightness", scenes[1], "-o", tmp_path / "out", "--log-file", log)
    assert alone.exit_code == 1 and len(alone.stderr.splitlines()) == 1
    assert "Traceback" in log.read_text()
