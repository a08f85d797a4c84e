"""No output may be a file that the run reads, whatever it is called and whatever --overwrite says."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import geopandas
import numpy as np
import pytest

from p3vae.cli.main import COMMANDS
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, envi_list

SKY = "wavelength_nm,direct,diffuse\n" + "".join(f"{nm},1000,200\n" for nm in range(300, 2600, 50))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A simulated town, a model of it, its maps, and every kind of file that a run reads besides."""
    folder = tmp_path_factory.mktemp("made")
    assert run("simulate", "-o", folder / "town.tif", "--size", "32x32", "--bands", "40").exit_code == 0
    scene, labels = folder / "town.tif", folder / "town_labels.gpkg"
    train = ("train", scene, "--labels", labels, "--model", "lda", "-o", folder / "own.p3vae")
    done = run(*train)
    assert done.exit_code == 0, done.output
    done = run("classify", scene, "-m", folder / "own.p3vae", "-o", folder / "maps")
    assert done.exit_code == 0, done.output
    geopandas.read_file(labels).to_file(folder / "l.shp")
    fields = {"wavelength": envi_list(WAVELENGTHS), "wavelength units": "nm"}
    image = fixtures.truth(20, 30, len(WAVELENGTHS)).astype(np.float32)
    fixtures.envi(folder / "x.img", image, "bip", fields)
    fixtures.raster(folder / "mask.tif", np.ones((32, 32, 1), np.uint8))
    (folder / "maps" / "town_landcover.tif.aux.xml").write_text("<PAMDataset/>")
    (folder / "sky.csv").write_text(SKY)
    (folder / "run.toml").write_text("tile-size = 8\n")
    (folder / "scenes.txt").write_text(f"{scene}\n")
    (folder / "w.csv").write_text("wavelength_nm\n" + "".join(f"{nm}\n" for nm in range(400, 2400, 50)))
    return folder


@pytest.fixture
def files(made, tmp_path) -> Path:
    folder = tmp_path / "files"
    shutil.copytree(made, folder)
    (folder / "scenes.txt").write_text(f"{folder / 'town.tif'}\n")
    (folder / "link.tif").symlink_to("town.tif")
    os.link(folder / "town.tif", folder / "hard.tif")
    return folder


TRAIN = "train {0}/town.tif --labels {0}/town_labels.gpkg --model lda --overwrite "
SHAPES = "train {0}/town.tif --labels {0}/l.shp --model lda --overwrite "
BRIGHT = "brightness {0}/town.tif -o {0}/out --overwrite "
MAP = "{0}/maps/town_landcover.tif"
REPORT = "report {0}/maps --overwrite -m {0}/own.p3vae "
ASSESS = "assess " + MAP + " --reference {0}/town_class.tif --overwrite "
CALLS = [
    *((BRIGHT + "--log-file {0}/" + name, name) for name in ("town.tif", "link.tif", "hard.tif")),
    (BRIGHT + "--mask {0}/mask.tif --log-file {0}/mask.tif", "mask.tif"),
    (BRIGHT + "--config {0}/run.toml --log-file {0}/run.toml", "run.toml"),
    ("brightness @{0}/scenes.txt -o {0}/out --log-file {0}/scenes.txt", "scenes.txt"),
    ("brightness @{0}/scenes.txt -o {0}/out --log-file {0}/town.tif", "town.tif"),
    ("brightness {0}/tow?.tif -o {0}/out --log-file {0}/town.tif", "town.tif"),
    ("brightness {0}/x.img -o {0}/out --log-file {0}/x.hdr", "x.hdr"),
    ("classify {0}/town.tif -m {0}/own.p3vae -o {0}/out --log-file {0}/own.p3vae", "own.p3vae"),
    ("classify {0}/town.tif --irradiance {0}/sky.csv -o {0}/out --log-file {0}/sky.csv", "sky.csv"),
    (TRAIN + "--from {0}/own.p3vae -o {0}/own.p3vae", "own.p3vae"),
    (TRAIN + "--irradiance {0}/sky.csv -o {0}/sky.csv", "sky.csv"),
    (TRAIN + "--wavelengths-file {0}/w.csv -o {0}/w.csv", "w.csv"),
    (TRAIN + "-o {0}/hard.tif", "hard.tif"),
    *((SHAPES + "-o {0}/l." + end, f"l.{end}") for end in ("shp", "shx", "dbf", "prj", "cpg")),
    ("train {0}/x.img --labels {0}/l.shp --overwrite -o {0}/x.hdr", "x.hdr"),
    *((REPORT + "-o {0}/" + n, n) for n in ("own.p3vae", "maps/town_landcover.tif", "maps/town_p3vae.json")),
    ("explain {0}/town.tif -m {0}/own.p3vae --pixel 3,3 --overwrite -o {0}/own.p3vae", "own.p3vae"),
    ("suggest {0}/town.tif -m {0}/own.p3vae --overwrite -o {0}/own.p3vae", "own.p3vae"),
    ("suggest {0}/town.tif -m {0}/own.p3vae --overwrite -o {0}/link.tif", "link.tif"),
    *((ASSESS + f"--{form} " + MAP, "maps/town_landcover.tif") for form in ("csv", "html")),
    (ASSESS + "--csv {0}/town_class.tif", "town_class.tif"),
    (ASSESS + "--html {0}/maps/town_confidence.tif", "maps/town_confidence.tif"),
    (
        "stats " + MAP + " --zones {0}/l.shp --overwrite --csv " + MAP + ".aux.xml",
        "town_landcover.tif.aux.xml",
    ),
    ("stats " + MAP + " --zones {0}/l.shp --overwrite --csv {0}/l.dbf", "l.dbf"),
    ("spectra {0}/own.p3vae --overwrite -o {0}/own.p3vae", "own.p3vae"),
    ("smooth " + MAP + " --overwrite -o " + MAP, "town_landcover.tif"),
    ("polygons " + MAP + " --overwrite -o " + MAP, "town_landcover.tif"),
    ("sample " + MAP + " --overwrite -o " + MAP, "town_landcover.tif"),
    ("info {0}/own.p3vae --stac {0}/own.p3vae", "own.p3vae"),
]


def content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize(("call", "name"), CALLS)
def test_an_output_that_is_an_input_is_refused_before_any_work(files, call, name):
    before = content(files)
    said = refusal(1, *(word.format(files) for word in call.split()))
    assert name in said and "is an input and would be lost" in said
    assert content(files) == before


def test_the_refusal_names_both_files(files):
    said = refusal(1, "brightness", files / "town.tif", "--log-file", files / "hard.tif")
    assert f"{files}/hard.tif: " in said and f"it belongs to {files}/town.tif" in said


def test_a_style_does_not_replace_an_input_of_its_name(files):
    geopandas.read_file(files / "town_labels.gpkg").to_file(files / "p.geojson")
    (files / "p.geojson").rename(files / "town_brightness.qml")
    before = content(files)
    call = ("brightness", files / "town.tif", "--mask", files / "town_brightness.qml", "--overwrite")
    assert "town_brightness.qml: is an input" in refusal(1, *call)
    assert content(files) == before


def test_a_list_on_stdin_counts_too(files):
    done = run(
        "brightness", "-", "-o", files / "out", "--log-file", files / "town.tif", input=f"{files}/town.tif\n"
    )
    assert done.exit_code == 1 and "town.tif: is an input" in done.stderr


@pytest.mark.parametrize("text", ["my notes\n", "{}\n", "[" * 9000])
def test_a_log_is_added_to_logs_only(files, text):
    notes = files / "notes.txt"
    notes.write_text(text)
    call = ("brightness", files / "town.tif", "-o", files / "out", "--log-file")
    assert "notes.txt: is no log of p3vae" in refusal(2, *call, notes)
    assert notes.read_text() == text
    for _ in range(2):
        assert run(*call, files / "new.jsonl").exit_code == 0


@pytest.mark.parametrize("name", ["brightness_collection.json", "item.json"])
def test_stac_documents_replace_none_of_the_users(files, name):
    theirs = files / "out" / name
    theirs.parent.mkdir()
    theirs.write_text('{"type": "Collection", "id": "mine"}')
    if name == "item.json":
        said = refusal(1, "info", files / "own.p3vae", "--stac", theirs)
    else:
        said = refusal(1, "brightness", files / "town.tif", "-o", theirs.parent, "--stac")
    assert f"{name}: is no STAC file that p3vae wrote" in said
    assert theirs.read_text() == '{"type": "Collection", "id": "mine"}'


def test_every_command_that_writes_a_named_file_checks_it():
    import click

    from p3vae.cli.main import main
    from p3vae.cli.options import FileCommand
    from p3vae.cli.params import OutputPath

    outputs = {"output", "outputs", "csv_path", "html_path", "save_model", "log_file", "stac"}
    context = click.Context(main)
    for name in COMMANDS:
        command = main.get_command(context, name)
        paths = [p for p in command.params if p.name in outputs and isinstance(p.type, click.Path)]
        if name in ("verify", "clean", "reproduce"):  # what they take is where they look, or a folder
            continue
        assert all(isinstance(p.type, OutputPath) for p in paths), name
        assert not paths or isinstance(command, FileCommand), name
