"""What users take away from invert-methane: GeoJSON, pictures, one table of many scenes, wind."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import geopandas
import h5py
import numpy as np
import pytest
import rasterio
from scipy.io import netcdf_file

from p3vae.cli.methane.plume_table import FIELDS
from p3vae.cli.records.manifest import sha256
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.styles.vectors import PLUME_ALIASES
from tests.cli.calls import refusal, run

FAST = ("--method", "mf-log", "--view-zenith", 5)
LON, LAT = 1.44, 43.6
"""Where simulated PRISMA scenes lie."""


def invert(*arguments):
    done = run("invert-methane", *arguments, *FAST)
    assert done.exit_code == 0, done.output
    return done


def plumes_of(*arguments):
    return json.loads(invert(*arguments, "--json").stdout)["plumes"]


@pytest.fixture(scope="module")
def scene(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("plumes") / "one.he5"
    done = run("simulate", "-o", path, "--layout", "prisma-l1", "--size", "80x70", "--plume", 20000)
    assert done.exit_code == 0, done.output
    return path


@pytest.fixture(scope="module")
def when(scene) -> datetime:
    with open_scene(scene) as opened:
        assert opened.acquisition.longitude_deg == pytest.approx(LON, abs=0.05)
        assert opened.acquisition.latitude_deg == pytest.approx(LAT, abs=0.05)
        return opened.acquisition.time


@pytest.fixture(scope="module")
def maps(scene) -> Path:
    invert(scene, "-o", scene.parent / "maps", "--wind", 4)
    return scene.parent / "maps"


def test_every_column_has_a_readable_name():
    assert tuple(PLUME_ALIASES) == FIELDS


def test_geojson_speaks_as_the_public_catalogues_do(maps):
    collection = json.loads((maps / "one_plumes.geojson").read_text())
    row = json.loads((maps / "one_p3vae.json").read_text())["products"][-1]
    assert collection["type"] == "FeatureCollection" and "crs" not in collection
    feature = collection["features"][0]
    said = feature["properties"]
    assert said["Plume ID"] == said["plume_id"] == said["id"] == "one-1"
    assert said["Max Plume Concentration (ppm m)"] == said["peak_ppm_m"] > 0
    assert said["Concentration Uncertainty (ppm m)"] == said["peak_std_ppm_m"] > 0
    assert said["emission_auto"] == said["q_kg_h"] and said["emission_uncertainty_auto"] == said["q_std_kg_h"]
    assert said["UTC Time Observed"].endswith("Z") and said["gas"] == "CH4" and said["instrument"] == "PRISMA"
    assert said["wind_speed_avg_auto"] == 4.0
    ring = np.array(feature["geometry"]["coordinates"][0][0])
    area = (np.roll(ring[:, 0], 1) * ring[:, 1] - ring[:, 0] * np.roll(ring[:, 1], 1)).sum()
    assert area > 0  # counter-clockwise
    west, south = ring.min(axis=0)
    east, north = ring.max(axis=0)
    assert west <= said["plume_longitude"] <= east and south <= said["plume_latitude"] <= north
    assert row["file"].endswith("_plume-1.png")


@pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")
def test_a_picture_shows_ground_plume_outline_and_source(maps):
    with rasterio.open(maps / "one_plume-1.png") as source:
        red, green, blue, alpha = source.read()
    assert source.width >= 300 and source.height >= 200
    grey = (red == green) & (green == blue)
    assert 0.3 < grey.mean() < 0.95 and alpha.max() == 255
    assert (~grey & (red > blue)).sum() > 1000  # inferno
    mark = np.argwhere((red == 0) & (green == 229) & (blue == 255))
    assert len(mark) == 2 * 15 * 3 - 3 * 3 and np.ptp(mark, axis=0).tolist() == [14, 14]  # a cross
    gas = np.argwhere(~grey & (red > blue))
    assert (gas.min(axis=0) <= mark.mean(axis=0)).all() and (mark.mean(axis=0) <= gas.max(axis=0)).all()


def test_every_product_is_in_the_json_of_the_run_and_of_the_next(scene, tmp_path):
    call = (scene, "-o", tmp_path / "maps", "--json")
    first = json.loads(invert(*call).stdout)["products"]
    again = json.loads(invert(*call).stdout)
    assert again["status"] == "skipped" and again["products"] == first
    assert set(first) == {
        *("methane", "methane_std", "methane_sensitivity", "quality", "plume_mask"),
        *("plumes.gpkg", "plumes.geojson", "plume-1.png"),
    }
    assert all(Path(path).is_file() for path in first.values())


def test_pictures_of_plumes_that_are_not_found_again_go(scene, tmp_path):
    invert(scene, "-o", tmp_path)
    manifest = json.loads((tmp_path / "one_p3vae.json").read_text())
    extra = tmp_path / "one_plume-2.png"
    extra.write_bytes(b"of an earlier run")
    manifest["products"].append({"file": extra.name, "size": extra.stat().st_size, "sha256": sha256(extra)})
    (tmp_path / "one_p3vae.json").write_text(json.dumps(manifest))
    mine = tmp_path / "one_plume-3.png"
    mine.write_bytes(b"mine")
    invert(scene, "-o", tmp_path, "--overwrite")
    assert not extra.exists() and mine.read_bytes() == b"mine"
    assert run("verify", tmp_path).exit_code == 0
    assert json.loads((tmp_path / "one_p3vae.json").read_text())["earlier_runs"] == []


def test_a_picture_of_somebody_else_is_not_replaced(scene, tmp_path):
    (tmp_path / "one_plume-1.png").write_bytes(b"mine")
    said = refusal(1, "invert-methane", scene, "-o", tmp_path, *FAST)
    assert "one_plume-1.png: exists already" in said
    assert [path.name for path in tmp_path.iterdir()] == ["one_plume-1.png"]


def test_a_scene_without_a_plume_has_empty_tables(scene, tmp_path):
    plain = tmp_path / "plain.he5"
    assert run("simulate", "-o", plain, "--layout", "prisma-l1", "--size", "60x60").exit_code == 0
    assert plumes_of(plain, "-o", tmp_path / "maps") == []
    assert json.loads((tmp_path / "maps" / "plain_plumes.geojson").read_text())["features"] == []
    assert len(geopandas.read_file(tmp_path / "maps" / "plain_plumes.gpkg")) == 0
    assert not list((tmp_path / "maps").glob("*.png"))


# many scenes


@pytest.fixture(scope="module")
def scenes(scene) -> list[Path]:
    folder = scene.parent / "archive"
    folder.mkdir()
    return [Path(shutil.copy(scene, folder / f"{name}.he5")) for name in "abc"]


def test_processes_side_by_side_end_with_one_table(scenes, tmp_path):
    assert "2 plumes of 2 scenes" in invert(*scenes[:2], "-o", tmp_path, "-j", 2).stderr
    assert list(geopandas.read_file(tmp_path / "p3vae_plumes.gpkg")["id"]) == ["a-1", "b-1"]


def test_a_batch_has_one_table_of_all_its_plumes(scenes, tmp_path):
    out = tmp_path / "out"
    said = invert(*scenes, "-o", out, "--wind", 4).stderr
    assert "p3vae_plumes.gpkg: 3 plumes of 3 scenes" in said
    table = geopandas.read_file(out / "p3vae_plumes.gpkg")
    assert list(table["id"]) == ["a-1", "b-1", "c-1"] and table.crs.to_epsg() == 4326
    single = geopandas.read_file(out / "b_plumes.gpkg")
    assert table.geometry[1].equals(single.geometry[0]) and table.q_kg_h[1] == single.q_kg_h[0]
    assert (out / "p3vae_plumes.qml").is_file()
    before = (out / "p3vae_plumes.gpkg").stat().st_mtime_ns
    invert(*scenes, "-o", out, "--wind", 4)  # all are skipped, nothing changes
    assert (out / "p3vae_plumes.gpkg").stat().st_mtime_ns == before
    invert(scenes[1], "-o", out, "--wind", 8, "--overwrite")  # one alone keeps the table up to date
    table = geopandas.read_file(out / "p3vae_plumes.gpkg")
    assert list(table.wind_m_s) == [4.0, 8.0, 4.0]
    assert run("verify", out).exit_code == 0


def test_a_table_of_somebody_else_is_not_replaced(scenes, tmp_path):
    mine = geopandas.GeoDataFrame({"a": [1]}, geometry=geopandas.points_from_xy([1], [2]), crs=4326)
    mine.to_file(tmp_path / "p3vae_plumes.gpkg", layer="plumes")
    before = (tmp_path / "p3vae_plumes.gpkg").read_bytes()
    done = run("invert-methane", *scenes[:2], "-o", tmp_path, *FAST)
    assert done.exit_code == 1 and "is not a table of plumes" in done.stderr
    assert (tmp_path / "p3vae_plumes.gpkg").read_bytes() == before
    assert (tmp_path / "a_plumes.gpkg").is_file()


def test_one_scene_alone_needs_no_table_of_many(scene, tmp_path):
    invert(scene, "-o", tmp_path)
    assert not (tmp_path / "p3vae_plumes.gpkg").exists()


# wind


def field(
    path,
    when,
    *,
    names=("u10", "v10"),
    time="valid_time",
    turned=False,
    hours=(-1, 0, 1, 2),
    speed=lambda lon, lat, hour: (3.0, 4.0),
    since=None,
    unit="hours",
    packed=False,
    west=0.0,
):
    """A wind field of a quarter of a degree around the scene, as ERA5 (north first) or GEOS (south first)."""
    start = since or datetime(1970, 1, 1, tzinfo=UTC)
    full = when.replace(minute=0, second=0, microsecond=0)
    divisor = {"hours": 3600.0, "minutes": 60.0, "seconds": 1.0}[unit]
    times = [(full + timedelta(hours=h) - start).total_seconds() / divisor for h in hours]
    lat = np.arange(44.5, 42.9, -0.25)
    lon = np.arange(0.5, 2.6, 0.25) + west
    lat = lat[::-1] if turned else lat
    u, v = np.array([[[speed(x - west, y, h) for x in lon] for y in lat] for h in hours]).transpose(
        3, 0, 1, 2
    )
    short = {"valid_time": ("valid_time", "latitude", "longitude"), "time": ("time", "lat", "lon")}[time]
    with h5py.File(path, "w") as file:
        for name, values in zip(short, (np.array(times), lat, lon), strict=True):
            file[name] = values
            file[name].make_scale(name)
        file[short[0]].attrs["units"] = f"{unit} since {start:%Y-%m-%d %H:%M:%S}"
        for name, values in zip(names, (u, v), strict=True):
            stored = (
                np.round((values - 1.0) / 0.001).astype(np.int16) if packed else values.astype(np.float32)
            )
            file[name] = stored
            file[name].attrs["units"] = "m s**-1"
            if packed:
                file[name].attrs["scale_factor"], file[name].attrs["add_offset"] = 0.001, 1.0
                file[name].attrs["_FillValue"] = np.int16(-32767)
            for axis, scale in enumerate(short):
                file[name].dims[axis].attach_scale(file[scale])
    return path


def test_wind_is_interpolated_to_the_source_and_the_time(scene, when, tmp_path):
    """A field that is linear in place and time, whose value anywhere is known without interpolation."""

    def speed(lon, lat, hour):
        return 2.0 + 0.5 * (lon - LON) + 0.25 * hour, 1.0 + 0.5 * (lat - LAT)

    path = field(tmp_path / "era5.nc", when, speed=speed)
    plume = plumes_of(scene, "-o", tmp_path / "maps", "--wind", path)[0]
    share = when.minute / 60 + when.second / 3600 + when.microsecond / 3.6e9
    east = 2.0 + 0.5 * (plume["source_lon"] - LON) + 0.25 * share
    north = 1.0 + 0.5 * (plume["source_lat"] - LAT)
    assert plume["wind_m_s"] == pytest.approx(np.hypot(east, north), abs=1e-4)
    assert plume["wind_towards_deg"] == pytest.approx(np.degrees(np.arctan2(east, north)), abs=0.01)
    assert plume["wind_source"] == "era5.nc"
    ueff = 0.34 * np.hypot(east, north) + 0.44
    assert plume["q_kg_h"] == pytest.approx(
        3600 * ueff * plume["ime_kg"] / np.sqrt(plume["area_m2"]), rel=1e-4
    )


@pytest.mark.parametrize(
    "form",
    [
        {"names": ("U10M", "V10M"), "time": "time", "turned": True, "unit": "minutes"},
        {"packed": True, "since": datetime(1900, 1, 1, tzinfo=UTC)},
        {"unit": "seconds", "west": 360.0},
        {"unit": "seconds", "west": -360.0},
    ],
)
def test_fields_of_every_layout_say_the_same(scene, when, tmp_path, form):
    path = field(tmp_path / "wind.nc", when, **form)
    plume = plumes_of(scene, "-o", tmp_path / "maps", "--wind", path)[0]
    assert plume["wind_m_s"] == pytest.approx(5.0, abs=2e-3)
    assert plume["wind_towards_deg"] == pytest.approx(36.87, abs=0.05)


def test_classic_netcdf_is_read_too(scene, when, tmp_path):
    with netcdf_file(tmp_path / "wind.nc", "w") as file:
        for name, values in (("latitude", [44.0, 43.0]), ("longitude", [1.0, 2.0])):
            file.createDimension(name, 2)
            file.createVariable(name, "f8", (name,))[:] = values
        file.createVariable("time", "f8", ())[...] = when.replace(tzinfo=None).hour
        file.variables["time"].units = f"hours since {when:%Y-%m-%d} 00:00:00"
        for name, value in (("u10", 3.0), ("v10", 4.0)):
            file.createVariable(name, "f4", ("latitude", "longitude"))[:] = value
            file.variables[name].units = "m s-1"
    late = when.minute > 30
    if late:
        said = refusal(
            2, "invert-methane", scene, "-o", tmp_path / "m", "--wind", tmp_path / "wind.nc", *FAST
        )
        assert "does not cover" in said
        return
    assert plumes_of(scene, "-o", tmp_path / "m", "--wind", tmp_path / "wind.nc")[0]["wind_m_s"] == 5.0


def test_several_sources_stand_side_by_side(scene, when, tmp_path):
    table = tmp_path / "wind.csv"
    table.write_text("scene,wind_m_s,wind_std_m_s,source\none,2.5,0.5,mast\n")
    path = field(tmp_path / "era5.nc", when)
    asked = (scene, "-o", tmp_path / "maps", "--wind", path, "--wind", table, "--wind", 3)
    plume = plumes_of(*asked)[0]
    assert [wind["source"] for wind in plume["winds"]] == ["era5.nc", "mast", "--wind"]
    assert [wind["wind_m_s"] for wind in plume["winds"]] == pytest.approx([5.0, 2.5, 3.0])
    for wind in plume["winds"]:
        speed = 0.34 * wind["wind_m_s"] + 0.44
        assert wind["q_kg_h"] == pytest.approx(3600 * speed * plume["ime_kg"] / np.sqrt(plume["area_m2"]))
    assert plume["winds"][1]["wind_std_m_s"] == 0.5
    assert plume["q_kg_h"] == plume["winds"][0]["q_kg_h"] and plume["wind_source"] == "era5.nc"
    kept = geopandas.read_file(tmp_path / "maps" / "one_plumes.gpkg")
    assert json.loads(kept.winds[0]) == plume["winds"]
    settings = json.loads((tmp_path / "maps" / "one_p3vae.json").read_text())["settings"]
    assert [wind["source"] for wind in settings["winds"]] == ["era5.nc", "mast", "--wind"]
    changed = field(tmp_path / "era5.nc", when, speed=lambda lon, lat, hour: (1.0, 1.0))
    assert changed == path
    assert "lists a run that differs" in refusal(1, "invert-methane", *asked, *FAST)  # same name, other wind


def hole(lon, lat, hour):
    return (np.nan, np.nan) if abs(lat - 43.5) < 0.1 else (3.0, 4.0)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"hours": (5, 6)}, "does not cover 20"),
        ({"west": 30.0}, "does not cover longitude 1."),
        ({"speed": hole}, "has no wind (NaN) at 1."),
        ({"names": ("u100", "v100")}, "has no 10 m wind, only latitude, longitude, u100, v100"),
    ],
)
def test_a_field_that_does_not_help_is_refused_before_the_work(scene, when, tmp_path, form, words):
    path = field(tmp_path / "wind.nc", when, **form)
    said = refusal(2, "invert-methane", scene, "-o", tmp_path / "maps", "--wind", path, *FAST)
    assert words in said and "wind.nc" in said and "u10" in said
    assert not (tmp_path / "maps").exists()


def damaged(path, how):
    with h5py.File(path, "r+") as file:
        if how == "knots":
            file["u10"].attrs["units"] = "knots"
        elif how == "no units of time":
            del file["valid_time"].attrs["units"]
        elif how == "levels":
            values = np.stack([file["u10"][()]] * 2, axis=1)
            for name in ("u10", "v10"):
                del file[name]
                file[name] = values
                for axis, scale in ((0, "valid_time"), (2, "latitude"), (3, "longitude")):
                    file[name].dims[axis].attach_scale(file[scale])
        elif how == "elsewhere":
            del file["u10"]
            file["u10"] = h5py.ExternalLink("other.nc", "/u10")
    if how == "cut":
        path.write_bytes(path.read_bytes()[:3000])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("knots", "is in 'knots'"),
        ("no units of time", "its times are in ''"),
        ("levels", "where one must be selected"),
        ("elsewhere", "refers to data in other files"),
        ("cut", "cannot be read"),
    ],
)
def test_a_damaged_field_is_refused_with_a_line(scene, when, tmp_path, how, words):
    path = field(tmp_path / "wind.nc", when)
    damaged(path, how)
    assert words in refusal(2, "invert-methane", scene, "-o", tmp_path / "maps", "--wind", path, *FAST)
    assert not (tmp_path / "maps").exists()


def test_a_scene_without_time_needs_a_speed(when, tmp_path):
    path, place = tmp_path / "a.tif", rasterio.Affine(30, 0, 370_000, 0, -30, 4_830_000)
    profile = {"driver": "GTiff", "width": 4, "height": 4, "count": 2, "dtype": "float32"}
    with rasterio.open(path, "w", crs="EPSG:32631", transform=place, **profile) as target:
        target.write(np.ones((2, 4, 4), "float32"))
        for band, centre in ((1, 1650.0), (2, 2300.0)):
            target.update_tags(band, wavelength=str(centre), wavelength_units="Nanometers")
    wind = field(tmp_path / "wind.nc", when)
    said = refusal(2, "invert-methane", path, "-o", tmp_path / "maps", "--quantity", "radiance",
                   "--sun-zenith", 30, "--wind", wind)  # fmt: skip
    assert "whose time is unknown" in said
