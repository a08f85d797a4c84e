"""Input that was made to hurt: huge claims, slow text, pipes, bombs, empty results. One line, soon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import h5py
import numpy as np
import pytest
import rasterio
import torch

from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.tiling import Window
from p3vae.cli.styles.rasters import Categories, Category, category_document, style_document
from p3vae.models.checkpoint import ModelFile, ModelFormatError, read_card, read_model_file, write_model_file
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, envi_list, wavelength_tags

IMAGE = fixtures.truth(40, 30, len(WAVELENGTHS)).astype(np.float32)
CUBE = fixtures.truth(8, 6, 6)


def geotiff(path: Path, image=IMAGE) -> Path:
    return fixtures.raster(path, image, band_tags=wavelength_tags(WAVELENGTHS))


def envi(folder: Path, **fields: str) -> Path:
    return fixtures.envi(folder / "a.img", IMAGE, "bil", {"wavelength": envi_list(WAVELENGTHS)} | fields)


def emit(folder: Path) -> Path:
    glt = np.stack(np.meshgrid(np.arange(1, 7), np.arange(1, 9)), axis=-1)
    return fixtures.emit(folder, "reflectance", CUBE, glt, np.ones(6))


@pytest.mark.parametrize("field", ["bands", "lines", "samples", "header offset"])
def test_an_envi_header_that_claims_too_much_is_refused(tmp_path, field):
    path = envi(tmp_path)
    header = path.with_suffix(".hdr")
    kept = [line for line in header.read_text().splitlines() if not line.startswith(field)]
    header.write_text("\n".join([*kept, f"{field} = 1000000000"]))
    started = time.perf_counter()
    assert "truncated" in refusal(1, "info", path)
    assert time.perf_counter() - started < 5


@pytest.mark.parametrize("text", [" " * 60_000, "a = {" * 20_000, "x" * 100_000, "=" * 60_000, "{}" * 30_000])
def test_an_envi_header_is_read_in_linear_time(tmp_path, text):
    path = envi(tmp_path)
    header = path.with_suffix(".hdr")
    header.write_text(f"{header.read_text()}\n{text}\n")
    started = time.perf_counter()
    assert run("info", path).exit_code == 0
    assert time.perf_counter() - started < 5


def test_a_description_of_many_digits_is_no_wavelength(tmp_path):
    path = fixtures.raster(tmp_path / "a.tif", IMAGE)
    with rasterio.open(path, "r+") as raster:
        for band in raster.indexes:
            raster.set_band_description(band, "1" * 60_000)
    started = time.perf_counter()
    assert "no wavelengths" in run("info", path).stdout
    assert time.perf_counter() - started < 5


def test_tables_of_hdf5_that_claim_too_much_are_refused(tmp_path):
    granule = emit(tmp_path)
    with h5py.File(granule, "r+") as file:
        del file["sensor_band_parameters/wavelengths"]
        file.create_dataset("sensor_band_parameters/wavelengths", (10**10,), "f4", chunks=(1024,))
    assert "claims" in refusal(1, "info", granule)
    swath = fixtures.prisma(tmp_path, "1", CUBE, CUBE)
    with h5py.File(swath, "r+") as file:
        names = []
        file.visit(lambda name: names.append(name) if name.endswith("Cw_Vnir_Matrix") else None)
        del file[names[0]]
        file.create_dataset(names[0], (10**6, 10**6), "f4", chunks=(64, 64))
    assert "claims" in refusal(1, "info", swath)


def test_a_huge_lookup_table_or_raster_is_described_at_once(tmp_path):
    granule = emit(tmp_path)
    with h5py.File(granule, "r+") as file:
        for name in ("location/glt_x", "location/glt_y"):
            del file[name]
            file.create_dataset(name, (10**6, 10**6), "i4", chunks=(64, 64))
    sparse = tmp_path / "sparse.tif"
    profile = {"driver": "GTiff", "width": 10**5, "height": 10**5, "count": 30, "dtype": "uint16"}
    with rasterio.open(
        sparse, "w", sparse_ok=True, bigtiff="yes", tiled=True, blockxsize=512, blockysize=512,
        crs="EPSG:32633", transform=fixtures.UTM_TRANSFORM, interleave="pixel", **profile,
    ) as raster:  # fmt: skip
        for band in raster.indexes:
            raster.update_tags(band, wavelength=str(400 + 10 * band), wavelength_units="nm")
    for path in (granule, sparse):
        started = time.perf_counter()
        run("info", path)
        assert time.perf_counter() - started < 10


def test_a_dangling_detector_is_not_left_out_silently(tmp_path):
    path = fixtures.prisma(tmp_path, "1", CUBE, CUBE)
    with h5py.File(path, "r+") as file:
        data = file["HDFEOS/SWATHS/PRS_L1_HCO/Data Fields"]
        del data["VNIR_Cube"]
        data["VNIR_Cube"] = h5py.SoftLink("/nowhere")
    assert "VNIR cube is listed, but not there" in refusal(1, "info", path)


def test_a_pipe_is_refused(tmp_path):
    pipe = tmp_path / "scene.tif"
    os.mkfifo(pipe)
    scene = geotiff(tmp_path / "town.tif")
    assert "is no regular file" in refusal(1, "info", pipe)
    assert "is no regular file" in refusal(1, "brightness", scene, "--mask", pipe, "-o", tmp_path / "out")
    assert "no such model" in run("info", scene, "-m", pipe).stdout


def test_an_archive_larger_than_the_room_for_it_is_refused(tmp_path, monkeypatch):
    bomb = tmp_path / "PRS_L1_STD_OFFL_20240402102837_20240402102842_0001.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(bomb.with_suffix(".he5").name, bytes(100_000))
    content = bytearray(bomb.read_bytes())
    for start in (content.find(b"PK\x01\x02") + 24, content.find(b"PK\x03\x04") + 22):
        content[start : start + 4] = (2**32 - 2).to_bytes(4, "little")
    bomb.write_bytes(content)
    free = type("Usage", (), {"free": 10**9})
    monkeypatch.setattr("p3vae.cli.scenes.formats.hdf5.shutil.disk_usage", lambda _: free)
    assert "has too little room" in refusal(1, "info", bomb)


def test_a_folder_for_temporary_files_that_is_not_there_is_reported(tmp_path, monkeypatch):
    path = fixtures.zipped(fixtures.prisma(tmp_path, "1", CUBE, CUBE), 8)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    assert "TMPDIR" in refusal(1, "info", path)


def test_xml_in_another_encoding_does_not_hide_entities(tmp_path):
    counts = (IMAGE * 1e4).astype(np.int16)
    image = fixtures.enmap(tmp_path, "L2A", counts, WAVELENGTHS, gain=1e-4, offset=0.0)
    metadata = next(tmp_path.glob("*METADATA.XML"))
    hidden = '<?xml version="1.0" encoding="UTF-16"?><!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'
    metadata.write_bytes(hidden.encode("utf-16"))
    assert "is not UTF-8" in refusal(1, "info", image)


@pytest.mark.parametrize("level", [0.0, 1e-9])
def test_maps_without_any_value_are_an_error(tmp_path, level):
    """A scene of zeros is valid to a reader, and nothing to a methane retrieval or a classifier."""
    from p3vae.cli.rasters.files import MapSpec
    from tests.cli.fake_scene import FunctionMapper, make, memory_scene

    scene = memory_scene(np.full((8, 8, 5), level, np.float32))
    spec = MapSpec("empty", "nothing")
    with pytest.raises(OSError, match="no pixel has a result"):
        mapper = FunctionMapper(lambda tile: {"empty": np.full(tile.valid.shape, np.nan)}, {"empty": spec})
        make(scene, mapper, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "header",
    ['{"format": "abc"}', '{"format": 1e400}', "[" * 50_000, '{"format": 1, "kind": 3}', "null", "\\ud800"],
)
def test_a_model_with_a_card_of_nonsense_is_refused(tmp_path, header):
    from safetensors.torch import save_file

    path = tmp_path / "m.p3vae"
    save_file({"a": torch.zeros(1)}, path, metadata={"p3vae": header})
    with pytest.raises(ModelFormatError):
        read_card(path)
    scene = geotiff(tmp_path / "town.tif")
    assert "m.p3vae: no" in run("info", scene, "-m", path).stdout
    assert "m.p3vae" in refusal(1, "classify", scene, "-m", path, "-o", tmp_path / "out")


def test_weights_that_are_no_numbers_and_huge_headers_are_refused(tmp_path):
    path = tmp_path / "m.p3vae"
    write_model_file(path, ModelFile("landcover", {}, {"a": torch.tensor([1.0, float("nan")])}))
    with pytest.raises(ModelFormatError, match="not all numbers"):
        read_model_file(path, kind="landcover")
    write_model_file(path, ModelFile("landcover", {"name": "x" * 50_000_000}, {"a": torch.zeros(1)}))
    started = time.perf_counter()
    with pytest.raises(ModelFormatError, match="header"):
        read_model_file(path, kind="landcover")
    assert time.perf_counter() - started < 1


def test_config_and_options_of_nonsense_are_usage_errors(tmp_path):
    scene, config = geotiff(tmp_path / "town.tif"), tmp_path / "c.toml"
    for text in ("a = " + "[" * 20_000, 'output = "a\\u0000b"', "scale = 1e400", "tile-size = -1"):
        config.write_text(text)
        assert "c.toml" in refusal(2, "brightness", scene, "--config", config)
    table = tmp_path / "w.csv"
    table.write_text("wavelength_nm\n" + "1" * 200_000)
    assert "w.csv" in refusal(1, "info", scene, "--wavelengths-file", table)
    assert run("classify", scene, "--water-vapour", "1e6").exit_code == 2


def test_names_of_classes_stay_well_formed_xml():
    legend = Categories((Category(1, "roof\x00\x1b[31m\ud800 & <tile>", "#c81e1e"),))
    for document in (style_document(legend), category_document(legend)):
        ElementTree.fromstring(document.partition(b"SYSTEM'>\n")[2] or document)


@pytest.mark.parametrize("interleave", ["bsq", "bil", "bip"])
def test_a_cube_that_is_cut_while_it_is_read_does_not_kill_the_process(tmp_path, interleave):
    script = (
        "import sys; from pathlib import Path\n"
        "from p3vae.cli.scenes.opening import open_scene; from p3vae.cli.scenes.tiling import Window\n"
        "from p3vae.cli.errors import SceneError\n"
        "scene = open_scene(sys.argv[1])\n"
        "Path(sys.argv[1]).write_bytes(b'')\n"
        "try: scene.read(Window(0, 0, 40, 30))\n"
        "except SceneError as error: print(error)\n"
    )
    path = fixtures.envi(tmp_path / "a.img", IMAGE, interleave, {"wavelength": envi_list(WAVELENGTHS)})
    done = subprocess.run([sys.executable, "-c", script, path], capture_output=True, text=True, check=True)
    assert "ends before" in done.stdout


@pytest.mark.parametrize("kind", ["tif", "envi", "prisma"])
def test_threads_may_share_a_scene(tmp_path, kind):
    if kind == "prisma":
        path = fixtures.prisma(tmp_path, "1", fixtures.truth(64, 48, 6), fixtures.truth(64, 48, 6))
    elif kind == "envi":
        path = envi(tmp_path)
    else:
        path = geotiff(tmp_path / "a.tif", fixtures.truth(512, 512, 6).astype(np.float32))
    with open_scene(path) as scene:
        rows = scene.grid.height // 4
        windows = [Window(row, 0, rows, scene.grid.width) for row in range(0, 4 * rows, rows)]
        expected = [scene.read(window).values for window in windows]
        wrong = []

        def read(order):
            for _ in range(10):
                for place in order:
                    if not np.array_equal(scene.read(windows[place]).values, expected[place], equal_nan=True):
                        wrong.append(place)

        threads = [threading.Thread(target=read, args=(np.roll(range(4), n),)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong


def test_a_line_of_json_is_written_for_a_scene_that_fails_alone(tmp_path):
    (tmp_path / "a.tif").write_bytes(b"no raster")
    done = run("brightness", tmp_path / "a.tif", "-o", tmp_path / "out", "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["status"] == "failed"


TOO_LITTLE = """
import os, resource, sys
from pathlib import Path
from p3vae.cli.main import main
import p3vae.cli.landcover.train, p3vae.models.landcover.train, p3vae.cli.labels.draw, geopandas
resident = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
limit = resident + int(sys.argv[1]) * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
main(sys.argv[2:])
"""


@pytest.mark.parametrize("more", [24, 40])
def test_too_little_memory_for_training_is_one_line(tmp_path, more):
    samples = Path(__file__).resolve().parents[2] / "sample_data"
    call = ["train", samples / "town.tif", "--labels", samples / "town_labels.gpkg", "--model", "lda"]
    command = [sys.executable, "-c", TOO_LITTLE, str(more), *call, "-o", tmp_path / "m.p3vae"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr and done.returncode in (0, 1), done.stderr
    assert done.returncode == 0 or not list(tmp_path.iterdir())


def test_a_cube_that_claims_more_bands_than_wavelengths_is_refused(tmp_path):
    """A chunked dataset of 100,000 bands is a few bytes in the file; reading a pixel would take them all."""
    table = np.stack(np.meshgrid(np.arange(1, 7), np.arange(1, 9)), axis=-1)
    scene = fixtures.emit(tmp_path, "reflectance", fixtures.truth(8, 6, 6), table, np.ones(6))
    with h5py.File(scene, "r+") as file:
        del file["reflectance"]
        file.create_dataset("reflectance", (8, 6, 100_000), "u2", chunks=(1, 1, 1000))
    done = run("brightness", scene, "-o", tmp_path / "out")
    assert done.exit_code == 1 and "does not have its 6 bands" in done.stderr, done.output
