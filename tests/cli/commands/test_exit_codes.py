"""Exit codes that a pipeline can trust, and remedies that work when typed."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from tests.cli.calls import refusal, run, stdout_of, succeed
from tests.cli.scenes import fixtures

PROGRAM = Path(sys.executable).with_name("p3vae")
TOWN = Path("sample_data/town.tif")


def test_nothing_to_verify_is_a_failure(tmp_path) -> None:
    assert "holds no manifest" in refusal(1, "verify", tmp_path)


def test_an_unknown_model_is_a_failure() -> None:
    done = run("models", "foo")
    assert done.exit_code == 1 and "no such model file" in done.stdout


def test_a_misspelt_model_is_guessed(tmp_path) -> None:
    said = refusal(1, "classify", TOWN, "-m", "twon", "-o", tmp_path)
    assert "did you mean town? shipped are earth, town" in said
    succeed("classify", TOWN, "-m", re.search(r"did you mean (\w+)\?", said)[1], "-o", tmp_path, "-q")


def test_all_that_is_missing_is_said_at_once(tmp_path) -> None:
    image = (fixtures.truth(20, 18, 10) * 1e4).astype(np.int16)
    scene = fixtures.raster(tmp_path / "s.tif", image, bands=None)
    said = refusal(1, "classify", scene, "-o", tmp_path / "out")
    assert "has no wavelengths, scale" in said and "--scale 1e-4" in said
    assert "and sun" in said and "--sun-zenith DEG" in said


def test_labels_of_lines_are_no_labels(tmp_path) -> None:
    line = shapely.LineString([(570000, 4830000), (570050, 4830050)])
    labels = tmp_path / "l.gpkg"
    geopandas.GeoDataFrame({"class": ["a"]}, geometry=[line], crs="EPSG:32631").to_file(labels)
    said = refusal(1, "train", TOWN, "--labels", labels, "-o", tmp_path / "m.p3vae")
    assert "holds lines (give polygons or points)" in said


def test_an_image_in_a_pipe_is_no_list(tmp_path) -> None:
    done = run("classify", "-", "-o", tmp_path, input=TOWN.read_bytes())
    assert done.exit_code == 2 and "is no list of names" in done.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("unknwon = true\n", "did you mean 'unknown'? see p3vae classify --help"),
        ("= 3\n", "write lines such as"),
    ],
)
def test_a_bad_file_of_options_says_what_to_write(tmp_path, content, said) -> None:
    (tmp_path / "o.toml").write_text(content)
    assert said in refusal(2, "classify", TOWN, "--config", tmp_path / "o.toml")


def test_training_makes_the_folder_of_its_model(tmp_path) -> None:
    model = tmp_path / "new" / "m.p3vae"
    succeed("train", TOWN, "--labels", "sample_data/town_labels.gpkg", "--model", "lda", "-o", model, "-q")
    assert model.is_file()


def test_a_missing_product_is_made_anew_by_the_remedy(tmp_path) -> None:
    scenes = [shutil.copy(TOWN, tmp_path / f"{name}.tif") for name in "ab"]
    call = ("brightness", *scenes, "-o", tmp_path / "out")
    succeed(*call, "-q")
    (tmp_path / "out" / "a_brightness.tif").unlink()
    kept = (tmp_path / "out" / "b_brightness.tif").stat().st_mtime_ns
    done = run(*call)
    assert (
        done.exit_code == 3 and "use --resume --overwrite, which makes only what differs anew" in done.output
    )
    assert "skipped" in stdout_of(*call, "--resume", "--overwrite")
    assert (tmp_path / "out" / "a_brightness.tif").is_file()
    assert (tmp_path / "out" / "b_brightness.tif").stat().st_mtime_ns == kept


def test_ctrl_c_between_scenes_says_how_far_it_got(tmp_path) -> None:
    scenes = [shutil.copy(TOWN, tmp_path / f"{number:02}.tif") for number in range(40)]
    command = [PROGRAM, "brightness", *scenes, "-o", tmp_path / "out", "-q"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while len(list((tmp_path / "out").glob("*_p3vae.json"))) < 3 and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    done = int(re.search(r"(\d+) of 40 scenes are done; the same line goes on", said)[1])
    assert 1 <= done < 40 and "Traceback" not in said


def test_scenes_that_are_done_need_no_other_process(tmp_path) -> None:
    scenes = [shutil.copy(TOWN, tmp_path / f"{number:02}.tif") for number in range(6)]
    call = [PROGRAM, "brightness", *scenes, "-o", tmp_path / "out"]
    subprocess.run([*call, "-q"], check=True)

    def seconds(*more: str) -> float:
        started = time.monotonic()
        subprocess.run([*call, *more], check=True, capture_output=True)
        return time.monotonic() - started

    alone = min(seconds() for _ in range(2))
    assert min(seconds("-j", "2") for _ in range(2)) < 1.5 * alone
