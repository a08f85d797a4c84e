"""The same line every night: what is done is skipped, what differs is said, what fails is counted."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from p3vae.cli.main import main
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags


def raster(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = fixtures.truth(12, 14, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(path, image, band_tags=wavelength_tags(WAVELENGTHS))


@pytest.fixture
def archive(tmp_path):
    return [raster(tmp_path / "archive" / f"{name}.tif") for name in "abcd"]


def statuses(done) -> dict[str, str]:
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {Path(line["scene"]).name: line["status"] for line in lines}


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_the_same_line_again_skips_what_is_done(archive, tmp_path):
    call = ("brightness", *archive, "-o", tmp_path / "out", "--json")
    assert set(statuses(run(*call)).values()) == {"done"}
    before = times(tmp_path / "out")
    again = run(*call)
    assert again.exit_code == 0 and set(statuses(again).values()) == {"skipped"}
    assert times(tmp_path / "out") == before
    (tmp_path / "out" / "b_p3vae.json").unlink()
    (tmp_path / "out" / "b_brightness.tif").unlink()
    (tmp_path / "out" / "b_brightness.qml").unlink()
    assert statuses(run(*call)) == {
        "a.tif": "skipped",
        "b.tif": "done",
        "c.tif": "skipped",
        "d.tif": "skipped",
    }


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--bad-bands", "500-600"], "scene_options"),
        (["--sun-zenith", "12"], "scene_options"),
        (["--co", "COMPRESS=LZW"], "creation_options"),
    ],
)
def test_a_run_with_other_settings_is_not_the_same(archive, tmp_path, option, said):
    call = ("brightness", archive[0], "-o", tmp_path / "out")
    assert run(*call).exit_code == 0
    assert said in refusal(1, *call, *option)
    assert run(*call, *option, "--overwrite").exit_code == 0
    assert run(*call, *option).exit_code == 0


def test_a_scene_that_changed_or_a_product_that_is_missing_is_reported(archive, tmp_path):
    call = ("brightness", archive[0], "-o", tmp_path / "out")
    assert run(*call).exit_code == 0
    os.utime(archive[0], ns=(1, 1))
    assert "the scene has changed since" in refusal(1, *call)
    assert run(*call, "--resume", "--overwrite").exit_code == 0
    (tmp_path / "out" / "a_brightness.tif").unlink()
    assert "a_brightness.tif is missing" in refusal(1, *call)


def test_overwrite_maps_again_and_with_resume_only_what_differs(archive, tmp_path):
    call = ("brightness", *archive[:2], "-o", tmp_path / "out", "--json", "--overwrite")
    assert set(statuses(run(*call)).values()) == {"done"}
    assert set(statuses(run(*call)).values()) == {"done"}
    os.utime(archive[0], ns=(1, 1))
    assert statuses(run(*call, "--resume")) == {"a.tif": "done", "b.tif": "skipped"}


def test_a_moved_folder_is_still_done(archive, tmp_path):
    assert run("brightness", *archive, "-o", tmp_path / "out").exit_code == 0
    shutil.move(tmp_path / "archive", tmp_path / "moved")
    again = run("brightness", tmp_path / "moved" / "*.tif", "-o", tmp_path / "out", "--json")
    assert set(statuses(again).values()) == {"skipped"}


def test_every_scene_has_a_line_and_the_log_has_times(archive, tmp_path):
    archive[1].write_bytes(b"no raster")
    log = tmp_path / "log.jsonl"
    call = ("brightness", *archive, "-o", tmp_path / "out", "--json", "--log-file", log)
    done = run(*call)
    assert done.exit_code == 3
    assert statuses(done) == {"a.tif": "done", "b.tif": "failed", "c.tif": "done", "d.tif": "done"}
    assert "4 of 4" in done.stderr and "b.tif: is not a raster" in done.stderr
    again = run(*call)
    assert again.exit_code == 3
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [event["event"] for event in events] == 2 * ["start", *4 * ["scene"], "end"]
    assert all(event["time"] for event in events)
    assert events[-1]["skipped"] == 3 and events[-1]["failed"] == 1


def test_stop_leaves_the_rest_and_says_so(archive, tmp_path):
    archive[1].write_bytes(b"no raster")
    done = run("brightness", *archive, "-o", tmp_path / "out", "--json", "--on-error", "stop")
    assert done.exit_code == 3
    assert statuses(done) == {"a.tif": "done", "b.tif": "failed", "c.tif": "not run", "d.tif": "not run"}


def test_all_failed_is_exit_code_1(archive, tmp_path):
    for path in archive:
        path.write_bytes(b"no raster")
    done = run("brightness", *archive, "-o", tmp_path / "out", "--json")
    assert done.exit_code == 1 and set(statuses(done).values()) == {"failed"}


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(archive, tmp_path):
    assert run("brightness", archive[0], "-o", tmp_path / "out").exit_code == 0
    before = times(tmp_path / "out")
    done = run("brightness", *archive, "-o", tmp_path / "out", "--json", "--dry-run")
    assert statuses(done) == {"a.tif": "skipped", "b.tif": "to do", "c.tif": "to do", "d.tif": "to do"}
    line = json.loads(done.stdout.splitlines()[1])
    assert line["pixels"] == 12 * 14 and line["estimated_bytes"] == 4 * 12 * 14
    assert times(tmp_path / "out") == before


def test_shards_share_the_scenes_out(archive, tmp_path):
    parts = [
        statuses(run("brightness", *archive, "-o", tmp_path / "out", "--json", "--shard", f"{number}/3"))
        for number in (1, 2, 3)
    ]
    assert sorted(name for part in parts for name in part) == ["a.tif", "b.tif", "c.tif", "d.tif"]
    assert all(set(part.values()) == {"done"} for part in parts)
    for wrong in ("0/3", "4/3", "1", "a/b"):
        assert "--shard" in refusal(2, "brightness", *archive, "--shard", wrong)


def test_names_of_products_may_keep_a_dated_tree(tmp_path):
    scenes = [raster(tmp_path / "2024" / month / "scene.tif") for month in ("03", "04")]
    out = tmp_path / "out"
    assert "same products" in refusal(2, "brightness", *scenes, "-o", out)
    call = ("brightness", *scenes, "-o", out, "--output-template", "{parent2}/{parent}/{stem}")
    assert run(*call).exit_code == 0
    assert sorted(path.relative_to(out).as_posix() for path in out.rglob("*.tif")) == [
        "2024/03/scene_brightness.tif",
        "2024/04/scene_brightness.tif",
    ]
    lines = run(*call, "--json").stdout.splitlines()
    assert [json.loads(line)["status"] for line in lines] == ["skipped", "skipped"]
    for wrong in ("/{stem}", "../{stem}", "{stem.parent}", "{scene}", "{stem", "{stem!r}", "{stem:>9}"):
        assert "--output-template" in refusal(2, "brightness", *scenes, "--output-template", wrong)


def test_lists_name_files_as_they_are(tmp_path):
    names = ["plain", " space ", "#hash", "line\u2028separator\x85", "tab\t"]
    scenes = [raster(tmp_path / f"{name}.tif") for name in names]
    listing = tmp_path / "list.txt"
    listing.write_bytes(b"\n".join(os.fsencode(path) for path in scenes) + b"\r\n  \n# a comment\n")
    done = run("brightness", f"@{listing}", "-o", tmp_path / "lines", "--json")
    assert list(statuses(done).values()) == 5 * ["done"]
    listing.write_bytes(b"\0".join(os.fsencode(path) for path in scenes) + b"\0")
    done = run("brightness", f"@{listing}", "-o", tmp_path / "null", "--json", "-0")
    assert list(statuses(done).values()) == 5 * ["done"]
    done = run("brightness", "-", "-0", "-o", tmp_path / "null", "--json", input=listing.read_bytes())
    assert list(statuses(done).values()) == 5 * ["skipped"]
    assert "use -0" in refusal(2, "brightness", f"@{listing}")


def test_processes_side_by_side_give_the_same_files(archive, tmp_path):
    archive[2].write_bytes(b"no raster")
    call = ("brightness", *archive, "--json")
    alone, together = run(*call, "-o", tmp_path / "one"), run(*call, "-o", tmp_path / "two", "-j", "2")
    assert alone.exit_code == together.exit_code == 3
    assert statuses(alone) == statuses(together)
    for path in (tmp_path / "one").glob("*.tif"):
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()
    again = run(*call, "-o", tmp_path / "two", "-j", "2")
    assert sorted(statuses(again).values()) == ["failed", "skipped", "skipped", "skipped"]


def test_nothing_to_do_is_quick(archive, tmp_path):
    """No model is loaded for scenes that are done."""
    call = [*map(str, ("brightness", *archive, "-o", tmp_path / "out", "-q"))]
    main(call, standalone_mode=False)
    started = time.perf_counter()
    main(call, standalone_mode=False)
    assert time.perf_counter() - started < 0.5


def test_names_cannot_write_on_the_terminal(tmp_path):
    said = refusal(1, "brightness", tmp_path / "a\x1b(B\nb\u2028.tif")
    assert "a\\x1b(B\\nb\\u2028.tif: no such file" in said
