"""The manifest of invert-methane lists every file and all that decides masses and rates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from p3vae.cli.records.manifest import sha256
from tests.cli.calls import succeed


@pytest.fixture(scope="module")
def maps(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("methane")
    succeed(
        "simulate", "-o", folder / "two.he5", "--layout", "prisma-l1", "--size", "70x60", "--plume", 20000
    )
    for wind in (2, 4):  # the second run replaces the first's products, and its record
        succeed("invert-methane", folder / "two.he5", "-o", folder / "maps", "--method", "mf", "--wind", wind,
            "--ueff-b", 0.5, "--overwrite")  # fmt: skip
    return folder / "maps"


def test_every_file_is_listed_once_with_its_digest(maps):
    told = json.loads((maps / "two_p3vae.json").read_text())
    listed = {product["file"]: product for product in told["products"]}
    assert len(listed) == len(told["products"]) and told["earlier_runs"] == []
    kinds = (".tif", ".gpkg", ".geojson", ".png")
    assert set(listed) == {path.name for path in maps.iterdir() if path.suffix in kinds}
    assert {"two_plume_mask.tif", "two_plumes.gpkg"} <= set(listed)
    for name, product in listed.items():
        assert product["sha256"] == sha256(maps / name), name
    assert {item["name"] for item in listed["two_plume_mask.tif"]["classes"]} == {"no plume", "plume"}
    assert listed["two_plumes.gpkg"]["plumes"][0]["q_kg_h"] > 0


def test_wind_and_effective_wind_are_told(maps):
    settings = json.loads((maps / "two_p3vae.json").read_text())["settings"]
    assert (settings["wind_m_s"], settings["wind_std_m_s"]) == (4.0, 1.5)
    assert (settings["ueff_a"], settings["ueff_b"]) == (0.34, 0.5)
    assert settings["ueff_m_s"] == pytest.approx(0.34 * 4 + 0.5)
    assert settings["plume_rule"]["min_pixels"] == 9
