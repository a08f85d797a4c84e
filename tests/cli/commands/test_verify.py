"""`verify` says what is wrong with products, `clean` removes what dead runs left, `info` lists an archive."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from p3vae.cli.records.transactions import claim, hidden_folder, leave
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags


@pytest.fixture
def archive(tmp_path):
    image = fixtures.truth(12, 14, len(WAVELENGTHS)).astype(np.float32)
    scenes = [
        fixtures.raster(tmp_path / f"{name}.tif", image, band_tags=wavelength_tags(WAVELENGTHS))
        for name in "ab"
    ]
    assert run("brightness", *scenes, "-o", tmp_path / "out").exit_code == 0
    return tmp_path / "out"


def test_whole_products_pass(archive):
    done = run("verify", archive)
    assert done.exit_code == 0 and "2 sets of products are whole, 0 are not" in done.stderr
    assert run("verify", archive / "a_p3vae.json", "-q").stdout == ""


def renamed(out: Path, name: str) -> None:
    """The side file of a product, in its manifest."""
    manifest = out / "a_p3vae.json"
    manifest.write_text(manifest.read_text().replace("a_brightness.qml", name))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda out: (out / "a_brightness.tif").unlink(), "a_brightness.tif is missing"),
        (lambda out: (out / "a_brightness.qml").unlink(), "a_brightness.qml is missing"),
        (lambda out: (out / "a_brightness.tif").write_bytes(b"x"), "a_brightness.tif was changed"),
        (lambda out: (out / "a_p3vae.json").write_text("{}"), "is not a manifest"),
        (lambda out: renamed(out, "a" * 9000), "is not a manifest"),
        (lambda out: renamed(out, "a\\u0000b"), "is not a manifest"),
    ],
)
def test_what_is_wrong_is_named(archive, damage, said):
    damage(archive)
    done = run("verify", archive, "--json")
    assert done.exit_code == 3
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["status"] for line in lines] == ["damaged", "whole"]
    assert said in lines[0]["problems"]
    assert run("verify", archive / "a_p3vae.json").exit_code == 1


def test_clean_removes_what_is_dead_and_finishes_what_was_decided(archive):
    dead, live, decided = (hidden_folder(archive, f"{name}_p3vae.json") for name in ("x", "y", "z"))
    os.close(claim(archive, "x_p3vae.json"))
    (dead / "new" / "x_p3vae.json").write_text("not yet a manifest")
    handle = claim(archive, "y_p3vae.json")
    os.close(claim(archive, "z_p3vae.json"))
    (decided / "new" / "z_p3vae.json").write_text("{}")
    (decided / "new").rename(decided / "whole")
    verified = run("verify", archive)
    assert verified.exit_code == 0, "what is not moved into place yet does not count"
    listed = verified.stdout
    assert f"{dead}: left by a run, to be removed" in listed
    assert f"{live}: left by a run, in use" in listed
    assert dead.exists() and "to be finished" in run("clean", archive, "--dry-run").stdout
    try:
        assert run("clean", archive).exit_code == 0
        assert not dead.exists() and not decided.exists() and live.exists()
        assert (archive / "z_p3vae.json").read_text() == "{}"
    finally:
        leave(archive, "y_p3vae.json", handle)


def test_no_such_folder_is_reported(tmp_path):
    assert "no such file or folder" in refusal(2, "verify", tmp_path / "absent")


def test_info_lists_an_archive_as_csv_and_json(archive, tmp_path):
    (tmp_path / "c.tif").write_bytes(b"no raster")
    scenes = [tmp_path / f"{name}.tif" for name in "abc"]
    done = run("info", *scenes, "--csv")
    assert done.exit_code == 3
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [row["status"] for row in rows] == ["read", "read", "failed"]
    assert rows[0]["width"] == "14" and float(rows[0]["last_nm"]) == WAVELENGTHS[-1]
    assert "is not a raster" in rows[2]["error"]
    lines = [json.loads(line) for line in run("info", *scenes, "--json").stdout.splitlines()]
    assert [line["status"] for line in lines] == ["done", "done", "failed"]
