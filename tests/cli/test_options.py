"""Options from files and the shell: what is meant is understood, and nonsense is refused with one line."""

from __future__ import annotations

import codecs
import os

import numpy as np
import pytest
import rasterio

from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags


@pytest.fixture
def scene(tmp_path):
    image = fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(tmp_path / "town.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("tile-size = [7]", "tile-size"),
        ("tile-size = 2024-04-02", "tile-size"),
        ("tile-size = 7.5", "tile-size"),
        ("tile-size = true", "tile-size"),
        ("sun-zenith = {value = 30}", "sun-zenith"),
        ("sun-zenith = 120", "sun-zenith"),
        ("quiet = [1]", "quiet"),
        ('quiet = "yes"', "quiet"),
        ("output = true", "output"),
        ("grid = 'mercator'", "grid"),
        ("co = [[1]]", "co"),
        ("bbox = [[1, 2], [3, 4]]", "bbox"),
    ],
)
def test_a_config_value_of_the_wrong_kind_is_refused_by_name(scene, tmp_path, text, key):
    config = tmp_path / "run.toml"
    config.write_text(text + "\n")
    said = refusal(2, "brightness", scene, "-o", tmp_path / "out", "--config", config)
    assert "run.toml" in said and repr(key) in said
    assert not (tmp_path / "out").exists()


def test_a_config_that_is_no_utf8_is_refused(scene, tmp_path):
    config = tmp_path / "run.toml"
    config.write_bytes('output = "Köln"\n'.encode("latin-1"))
    said = refusal(2, "brightness", scene, "--config", config)
    assert "run.toml: cannot be read as TOML" in said


def test_a_config_may_hold_lists_negated_flags_and_a_byte_order_mark(scene, tmp_path):
    with rasterio.open(scene) as source:
        left, top = source.transform @ (3, 6)
        right, bottom = source.transform @ (13, 11)
    config = tmp_path / "run.toml"
    config.write_text(
        f"bbox = [{left}, {bottom}, {right}, {top}]\nno-progress = true\nmem-limit = 500\n"
        'co = ["COMPRESS=LZW", "BLOCKSIZE=128"]\nbad-bands = ["440-460", "2150-2250"]\n',
        encoding="utf-8-sig",
    )
    done = run("brightness", scene, "-o", tmp_path / "out", "--config", config)
    assert done.exit_code == 0, done.output
    with rasterio.open(tmp_path / "out" / "town_brightness.tif") as made:
        assert made.shape == (5, 10) and made.compression.name == "lzw"
    config.write_text('co = "COMPRESS=LZW"\n')
    done = run("brightness", scene, "-o", tmp_path / "two", "--config", config)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("from_stdin", [False, True])
def test_lists_of_scenes_may_start_with_a_mark_and_name_foreign_bytes(scene, tmp_path, mark, from_stdin):
    listing = tmp_path / "list.txt"
    foreign = "Köln.tif".encode("latin-1")
    listing.write_bytes(mark + f"{scene}\n{tmp_path}/".encode() + foreign + b"\n")
    scenes, options = ("-", {"input": listing.read_bytes()}) if from_stdin else (f"@{listing}", {})
    for problem in ("no such file", "UTF-8"):
        done = run("brightness", scenes, "-o", tmp_path / "out", "--overwrite", **options)
        assert done.exit_code == 3, done.output
        assert problem in done.stderr and "1 of 2 scenes" in done.stderr
        assert (tmp_path / "out" / "town_brightness.tif").exists()
        (tmp_path / os.fsdecode(foreign)).write_bytes(scene.read_bytes())


@pytest.mark.parametrize(
    "options",
    [
        "classify S --aod nan",
        "classify S --water-vapour inf",
        "classify S --albedo nan",
        "classify S --sun-zenith nan",
        "brightness S --scale nan",
        "brightness S --scale 0",
        "brightness S --pixel-size inf",
        "invert-methane S --wind nan",
        "invert-methane S --ueff-a nan",
        "invert-methane S --ueff-b inf",
        "invert-methane S --seed -1",
        "train S --labels L -o M --seed -1",
        "simulate -o S --overwrite --noise nan",
        "simulate -o S --overwrite --pixel-size inf",
        "simulate -o S --overwrite --size 300000x300000",
    ],
)
def test_impossible_numbers_are_wrong_usage(scene, options):
    words = [str(scene) if word == "S" else word for word in options.split()]
    done = run(*words)
    assert done.exit_code == 2, done.output
    option = words[-2]
    assert option in done.stderr.splitlines()[-1]
    assert not list(scene.parent.glob("town_*"))


def test_nodata_may_be_nan(scene, tmp_path):
    assert run("brightness", scene, "--nodata", "nan", "-o", tmp_path / "out").exit_code == 0


def test_an_irradiance_table_may_start_with_a_byte_order_mark(tmp_path):
    scene, table = tmp_path / "town.tif", tmp_path / "sky.csv"
    assert run("simulate", "-o", scene, "--size", 16).exit_code == 0
    rows = [f"{nm},1000,200\n" for nm in range(300, 2600, 50)]
    table.write_text("wavelength_nm,direct,diffuse\n" + "".join(rows), encoding="utf-8-sig")
    done = run("classify", scene, "-o", tmp_path / "out", "--irradiance", table)
    assert done.exit_code == 0, done.output


def test_a_list_of_scenes_that_cannot_be_read_is_told(tmp_path):
    for listing in (tmp_path / "absent.txt", tmp_path, tmp_path / ("a" * 300)):
        assert f"{listing}: no list of scenes" in refusal(2, "brightness", f"@{listing}")


@pytest.mark.parametrize(
    ("options", "words"),
    [(("--bbox-crs", "EPSG:4326"), "--bbox"), (("--pixel-size", 30), "--grid utm")],
    ids=["bbox-crs", "pixel-size"],
)
def test_an_option_without_its_partner_is_not_ignored(scene, tmp_path, options, words):
    assert words in refusal(2, "brightness", scene, "-o", tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()
