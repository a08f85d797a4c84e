"""Marks on tests that start processes, and a small town with model and maps for what comes after mapping."""

from __future__ import annotations

import pytest

from tests.cli.calls import run
from tests.processes import starts_processes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and starts_processes(item):
            item.add_marker("process")
        if "mapped_plumes" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("mapped_plumes"))  # made once, not by every worker


@pytest.fixture(scope="session")
def mapped_town(tmp_path_factory):
    """town.tif, town_labels.gpkg, town_class.tif, town.p3vae, and its products in maps/."""
    folder = tmp_path_factory.mktemp("mapped")
    few = ("--samples-per-class", 60, "--unlabelled", 200)
    calls = (
        ("simulate", "-o", folder / "town.tif", "--size", "64x56", "--bands", 24, "--seed", 7),
        (
            "train",
            folder / "town.tif",
            "--labels",
            folder / "town_labels.gpkg",
            "-o",
            folder / "town.p3vae",
            *few,
        ),
        ("classify", folder / "town.tif", "-m", folder / "town.p3vae", "-o", folder / "maps", "--unknown"),
    )
    for call in calls:
        done = run(*call)
        assert done.exit_code == 0, done.output
    return folder


@pytest.fixture(scope="session")
def mapped_plumes(tmp_path_factory):
    """two.he5, a PRISMA swath with two plumes, its methane in maps/, its ground.p3vae, said.txt."""
    folder = tmp_path_factory.mktemp("plumes")
    scene = ("simulate", "-o", folder / "two.he5", "--layout", "prisma-l1", "--size", "120x90")
    made = run(*scene, "--plume", 20000, "--plumes", 2)
    assert made.exit_code == 0, made.output
    maps = ("invert-methane", folder / "two.he5", "-o", folder / "maps", "--wind", 4, "--control")
    done = run(*maps, "--save-model", folder / "ground.p3vae")
    assert done.exit_code == 0, done.output
    (folder / "said.txt").write_text(done.stdout)
    return folder
