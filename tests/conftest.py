"""A small town with a model and maps, shared by tests of what happens after mapping."""

from __future__ import annotations

import pytest

from tests.cli.calls import run


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
