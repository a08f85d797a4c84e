"""Settings are declared once: the command line, its help, TOML files and Python agree about them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import rasterio

import p3vae
from p3vae.cli.errors import SceneError, UsageError
from p3vae.cli.settings import GROUPS
from tests.cli.calls import stdout_of, succeed

TOWN = Path("sample_data/town.tif")
METHANE = next(Path("sample_data").glob("PRS_L1*.he5"))
MAPPING = ("classify", "irradiance-map", "invert-methane", "brightness")


def uncompressed(path: Path) -> int:
    """Bytes of all values of a raster."""
    with rasterio.open(path) as raster:
        return raster.width * raster.height * sum(np.dtype(kind).itemsize for kind in raster.dtypes)


def good_between(scene, low: float, high: float):
    centres = scene.bands.wavelength_nm
    return scene.bands.good[(centres > low) & (centres < high)]


def headings(command: str) -> list[str]:
    said = stdout_of(command, "--help")
    return [line[:-1] for line in said.splitlines() if re.fullmatch(r"[A-Z][A-Za-z ]+:", line)]


@pytest.mark.parametrize("command", [*MAPPING, "train", "explain", "suggest"])
def test_help_shows_options_in_groups_and_the_rare_ones_last(command) -> None:
    found = headings(command)
    order = [group for group in GROUPS if group in found]
    assert [name for name in found if name in GROUPS] == order
    assert found[0] == "Options" and len(found) > 3
    said = stdout_of(command, "--help")
    assert said.index("--overlap") > said.index("Rarely needed:")


@pytest.mark.parametrize("command", MAPPING)
def test_every_option_of_a_mapping_command_has_a_group(command) -> None:
    said = stdout_of(command, "--help")
    first = said.partition("Options:")[2].partition("\n\n")[0]
    assert set(re.findall(r"--[a-z-]+", first)) == {"--help"}


def test_commands_are_grouped_and_all_are_there() -> None:
    said = stdout_of("--help")
    for heading in ("Map:", "Learn:", "Judge:", "Look:", "Archive:", "Make:"):
        assert f"\n{heading}\n" in said
    assert said.count("classify ") == said.count("  reproduce ") == 1


def test_keywords_are_the_long_options() -> None:
    with p3vae.open_scene(TOWN, sun_zenith=40, bad_bands="1340-1450", quantity="reflectance") as scene:
        assert scene.acquisition.sun_zenith_deg == 40
        assert not good_between(scene, 1340, 1450).any()
        maps = p3vae.classify(scene, p3vae.load_model("town"), unknown=True, neighbours=False, aod=0.1)
    assert 255 in maps.legend and maps.legend[255] == "unknown"


def test_ranges_may_be_given_as_numbers() -> None:
    with p3vae.open_scene(TOWN, bad_bands=((500, 600),)) as scene:
        assert not scene.bands.good[
            (scene.bands.wavelength_nm > 500) & (scene.bands.wavelength_nm < 600)
        ].any()


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: p3vae.open_scene(TOWN, sunzenith=3),
            r"has no keyword 'sunzenith' \(did you mean 'sun_zenith'\?\)",
        ),
        (lambda: p3vae.open_scene(TOWN, colour=3), "it takes .*scale"),
        (lambda: p3vae.classify(None, unkown=True), "did you mean 'unknown'"),
        (lambda: p3vae.invert_methane(None, winds=4), "did you mean 'wind'"),
    ],
)
def test_a_wrong_keyword_says_which_exist(call, said) -> None:
    with pytest.raises(TypeError, match=said):
        call()


def test_errors_in_python_name_keywords() -> None:
    with pytest.raises(UsageError, match=r"^scale -1.*range"):
        p3vae.open_scene(TOWN, scale=-1)
    with (
        p3vae.open_scene(TOWN, quantity="radiance") as scene,
        pytest.raises(Exception, match=r"or quantity='reflectance' if"),
    ):
        p3vae.classify(scene, p3vae.load_model("town"))
    with pytest.raises(SceneError) as missing:
        p3vae.open_scene(METHANE, scale=1e-4)
    assert "--" not in str(missing.value) and "leave out quantity, scale and nodata" in str(missing.value)


def test_methane_in_python_has_its_plumes_and_rates() -> None:
    with p3vae.open_scene(METHANE) as scene:
        maps = p3vae.invert_methane(scene, wind=4, seed=0)
    plumes = maps.tables["plumes"]
    assert len(plumes) and (plumes["q_kg_h"] > 0).all() and plumes.crs is not None
    assert set(maps) >= {"methane", "methane_std", "quality", "plume_mask"}
    assert any("plume 1:" in line for line in maps.lines)


def test_python_and_the_command_find_the_same_plumes(tmp_path) -> None:
    with p3vae.open_scene(METHANE) as scene:
        in_memory = p3vae.invert_methane(scene, method="mag1c", wind=4).tables["plumes"]
    said = stdout_of("invert-methane", METHANE, "--method", "mag1c", "--wind", 4, "-o", tmp_path, "--json")
    listed = json.loads(said.splitlines()[0])["plumes"]
    assert [row["pixels"] for row in listed] == list(in_memory["pixels"])
    assert [row["q_kg_h"] for row in listed] == pytest.approx(list(in_memory["q_kg_h"]))


def test_info_and_the_command_agree_about_methane(tmp_path) -> None:
    """Without the strong bands beyond 2,000 nm the weak ones about 1,700 nm are left."""
    call = (METHANE, "--bad-bands", "1830-2600")
    fit = {row["command"]: row["fit"] for row in json.loads(stdout_of("info", *call, "--json"))["commands"]}
    assert fit["invert-methane"]
    succeed("invert-methane", *call, "-o", tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        ("classify", TOWN, "-m", "town"),
        ("classify", TOWN, "-m", "town", "--probabilities", "--smooth", 2),
        ("classify", TOWN, "--materials", "--fractions"),
        ("classify", TOWN, "-m", "town", "--report", "--qgis"),
        ("irradiance-map", TOWN, "-m", "town", "--relight"),
        ("invert-methane", METHANE),
        ("brightness", TOWN),
    ],
    ids=lambda call: " ".join(str(word) for word in call[2:]) or call[0],
)
def test_a_dry_run_is_right_about_files_and_bytes(tmp_path, options) -> None:
    promised = json.loads(stdout_of(*options, "-o", tmp_path / "dry", "--dry-run", "--json").splitlines()[0])
    assert not (tmp_path / "dry").exists()
    succeed(*options, "-o", tmp_path / "out", "-q")
    made = {path.name for path in (tmp_path / "out").iterdir()}
    rasters = list((tmp_path / "out").glob("*.tif"))
    assert set(promised["files"]) <= made
    assert {path.name for path in rasters} <= set(promised["files"])
    page = tmp_path / "out" / "report.html"
    size = sum(uncompressed(path) for path in rasters) + (page.stat().st_size if page.exists() else 0)
    assert promised["estimated_bytes"] / 2 <= size <= 2 * promised["estimated_bytes"]
