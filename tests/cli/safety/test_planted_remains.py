"""Folders that look like what a killed run leaves, put there by somebody else: they decide nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from p3vae.cli.records.transactions import claim, hidden_folder
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import WAVELENGTHS, wavelength_tags

MARK = "town_p3vae.json"


@pytest.fixture
def scene(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "notes.txt").write_text("a year of work")
    image = fixtures.truth(12, 14, len(WAVELENGTHS)).astype(np.float32)
    return fixtures.raster(folder / "town.tif", image, band_tags=wavelength_tags(WAVELENGTHS))


def listing(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder with its bytes, every link with its target."""
    return {
        str(path.relative_to(folder)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def lists(hidden: Path) -> None:
    """As earlier versions left it: lists of moves and removals."""
    hidden.mkdir()
    (hidden / "lock").touch()
    (hidden / "moves.json").write_text(json.dumps(["notes.txt", MARK]))
    (hidden / "removals.json").write_text(json.dumps(["town.tif"]))
    (hidden / "notes.txt").write_text("not yours")
    (hidden / MARK).write_text("{}")


def deep(hidden: Path) -> None:
    hidden.mkdir()
    (hidden / "moves.json").write_text("[" * 100_000)


def dead(hidden: Path) -> None:
    """As a run leaves it now, but made somewhere else and copied."""
    elsewhere = hidden.parent.parent / "elsewhere"
    elsewhere.mkdir()
    made = hidden_folder(elsewhere, MARK)
    os.close(claim(elsewhere, MARK))
    (made / "old").mkdir()
    (made / "old" / "other.txt").write_text("not yours")
    (made / "new").rename(made / "whole")
    (made / "whole" / "notes.txt").write_text("not yours")
    shutil.copytree(made, hidden)
    shutil.rmtree(elsewhere)


def fifo(hidden: Path) -> None:
    hidden.mkdir()
    os.mkfifo(hidden / "lock")


def dangling(hidden: Path) -> None:
    hidden.mkdir()
    (hidden / "lock").symlink_to(hidden.parent.parent / "made")


def link(hidden: Path) -> None:
    lists(hidden.parent / "linked")
    hidden.symlink_to(hidden.parent / "linked")


def file(hidden: Path) -> None:
    hidden.write_text("a file of mine")


def own(hidden: Path) -> None:
    hidden.mkdir()
    (hidden / "thesis.txt").write_text("mine")


PLANTED = [lists, deep, dead, fifo, dangling, link, file, own]


@pytest.mark.parametrize("plant", PLANTED)
def test_a_run_names_them_and_changes_nothing(scene, plant):
    folder = scene.parent
    plant(folder / f".p3vae-{MARK}")
    before = listing(folder)
    said = refusal(1, "brightness", scene)
    assert f".p3vae-{MARK}: was not made here by a run of p3vae, and is left alone" in said
    assert listing(folder) == before and not (folder.parent / "made").exists()


@pytest.mark.parametrize("plant", PLANTED)
@pytest.mark.parametrize("name", [MARK, "backup", "report.html"])
def test_clean_leaves_them_and_does_the_others(scene, plant, name):
    folder = scene.parent
    plant(folder / f".p3vae-{name}")
    before = listing(folder)
    os.close(claim(folder, "zoo_p3vae.json"))
    looked = run("clean", folder, "--dry-run")
    assert looked.exit_code == 0 and ".p3vae-zoo_p3vae.json: to be removed" in looked.stdout
    assert hidden_folder(folder, "zoo_p3vae.json").exists()
    done = run("clean", folder)
    assert done.exit_code == 0 and ".p3vae-zoo_p3vae.json: removed" in done.stdout
    assert not hidden_folder(folder, "zoo_p3vae.json").exists()
    assert listing(folder) == before and not (folder.parent / "made").exists()
    if plant not in (link, file):
        assert f".p3vae-{name}: not made here by a run of p3vae, left alone" in done.stdout


def test_clean_of_a_manifest_cleans_no_other(scene):
    (scene.parent / MARK).write_text("{}")
    for name in (MARK, "zoo_p3vae.json"):
        os.close(claim(scene.parent, name))
    assert run("clean", scene.parent / MARK).exit_code == 0
    assert not hidden_folder(scene.parent, MARK).exists()
    assert hidden_folder(scene.parent, "zoo_p3vae.json").exists()


def test_clean_follows_no_link_and_enters_no_hidden_folder(scene, tmp_path):
    outside, repository = tmp_path / "outside", scene.parent / ".git"
    for place in (outside, repository):
        place.mkdir()
        os.close(claim(place, MARK))
    (scene.parent / "linked").symlink_to(outside)
    assert run("clean", scene.parent).stdout == ""
    assert all(hidden_folder(place, MARK).exists() for place in (outside, repository))


def decided(folder: Path, **files: str) -> Path:
    """The remains of a run of this tool that died when its files were complete."""
    os.close(claim(folder, MARK))
    hidden = hidden_folder(folder, MARK)
    for name, text in files.items():
        (hidden / "new" / name).write_text(text)
    (hidden / "new").rename(hidden / "whole")
    return hidden


def test_what_a_dead_run_made_never_replaces_a_file(scene):
    hidden = decided(scene.parent, **{"notes.txt": "made by a run"})
    before = listing(scene.parent)
    assert "notes.txt: is in the way of what a run has made" in refusal(1, "brightness", scene)
    assert listing(scene.parent) == before
    other = decided(scene.parent.parent)
    done = run("clean", scene.parent.parent)
    assert done.exit_code == 1 and "notes.txt: is in the way" in done.stderr
    assert hidden.exists() and not other.exists(), "the others are still cleaned"
    (scene.parent / "notes.txt").rename(scene.parent / "mine.txt")
    assert run("clean", scene.parent).exit_code == 0
    assert (scene.parent / "notes.txt").read_text() == "made by a run" and not hidden.exists()


def test_a_name_too_long_for_a_hidden_folder_is_mapped_and_cleaned(scene):
    long = scene.rename(scene.with_name("t" * 230 + ".tif"))
    done = run("brightness", long)
    assert done.exit_code == 0, done.output
    mark = f"{long.stem}_p3vae.json"
    os.close(claim(scene.parent, mark))
    assert f"{hidden_folder(scene.parent, mark)}: removed" in run("clean", scene.parent).stdout
