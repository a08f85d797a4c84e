"""A file from somebody else reads no other file and makes no request, whatever it is called."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import zipfile
from pathlib import Path

import geopandas
import h5py
import numpy as np
import pytest
import shapely

from p3vae.cli.errors import LabelError, P3vaeError
from p3vae.cli.labels import read_labels
from p3vae.cli.scenes.opening import open_scene
from tests.cli.calls import refusal, run
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM, WAVELENGTHS, wavelength_tags

SECRET = b"the content of a foreign file "
IMAGE = fixtures.truth(40, 30, len(WAVELENGTHS)).astype(np.float32)
CUBE = fixtures.truth(8, 6, 6)


@pytest.fixture
def canary(tmp_path):
    path = tmp_path / "elsewhere" / "canary.bin"
    path.parent.mkdir()
    path.write_bytes(SECRET * 4000)
    return path


@pytest.fixture
def server():
    """A port that nobody may call; requests are counted."""
    requests = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.1)
        stop = threading.Event()

        def listen():
            while not stop.is_set():
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                requests.append(connection.recv(100))
                connection.close()

        thread = threading.Thread(target=listen)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", requests
        stop.set()
        thread.join()


def raw_vrt(canary: Path) -> str:
    bands = "".join(
        f'<VRTRasterBand dataType="Byte" band="{band}" subClass="VRTRawRasterBand">'
        f"<Description>{400 + 10 * band} nm</Description>"
        f'<SourceFilename relativeToVRT="0">{canary}</SourceFilename><ImageOffset>{band}</ImageOffset>'
        "<PixelOffset>1</PixelOffset><LineOffset>30</LineOffset></VRTRasterBand>"
        for band in range(1, 6)
    )
    return f'<VRTDataset rasterXSize="30" rasterYSize="40">{bands}</VRTDataset>'


def remote_vrt(url: str) -> str:
    source = f"<SimpleSource><SourceFilename>/vsicurl/{url}/a.tif</SourceFilename><SourceBand>1</SourceBand>"
    return (
        '<VRTDataset rasterXSize="30" rasterYSize="40"><VRTRasterBand dataType="Byte" band="1">'
        f"<Description>500 nm</Description>{source}</SimpleSource></VRTRasterBand></VRTDataset>"
    )


def wms(url: str) -> str:
    return (
        f'<GDAL_WMS><Service name="TMS"><ServerUrl>{url}/${{z}}/${{x}}/${{y}}.png</ServerUrl></Service>'
        "<DataWindow><UpperLeftX>-180</UpperLeftX><UpperLeftY>90</UpperLeftY><LowerRightX>180</LowerRightX>"
        "<LowerRightY>-90</LowerRightY><SizeX>64</SizeX><SizeY>64</SizeY></DataWindow>"
        "<BandsCount>3</BandsCount></GDAL_WMS>"
    )


def stac(url: str) -> str:
    return (
        '{"type": "FeatureCollection", "stac_version": "1.0.0", "features": [{"type": "Feature", '
        '"stac_version": "1.0.0", "id": "a", "collection": "c", "geometry": null, "properties": '
        '{"proj:epsg": 32631, "proj:transform": [30, 0, 0, 0, -30, 0], "proj:shape": [40, 30]}, '
        f'"assets": {{"B1": {{"href": "{url}/a.tif", "type": "image/tiff"}}}}}}]}}'
    )


NAMES = ("scene.vrt", "scene.tif", "scene.dat", "scene.xml", "scene.json")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["raw", "remote", "wms", "stac"])
def test_a_scene_or_mask_that_describes_others_is_refused(tmp_path, canary, server, name, kind):
    url, requests = server
    text = {"raw": raw_vrt(canary), "remote": remote_vrt(url), "wms": wms(url), "stac": stac(url)}[kind]
    scene = tmp_path / name
    scene.write_text(text)
    assert name in refusal(1, "brightness", scene, "-o", tmp_path / "out", "--scale", "1")
    assert name in refusal(1, "info", scene)
    real = fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    assert name in refusal(2, "brightness", real, "--mask", scene, "-o", tmp_path / "out")
    with pytest.raises(P3vaeError), open_scene(real) as opened:
        read_labels(scene, opened.grid)
    assert not (tmp_path / "out").exists()
    assert requests == []


def test_a_users_own_vrt_is_opened_when_its_driver_is_named(tmp_path, canary):
    scene = tmp_path / "scene.vrt"
    scene.write_text(raw_vrt(canary))
    done = run("brightness", scene, "-o", tmp_path / "out", "--scale", "1", "--driver", "VRT")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("end", [".msk", ".ovr"])
def test_a_description_beside_a_raster_is_not_opened(tmp_path, canary, end):
    real = fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    real.with_name(f"town.tif{end}").write_text(raw_vrt(canary))
    assert f"town.tif{end}" in refusal(1, "brightness", real, "-o", tmp_path / "out")


def ogr_vrt(source: str) -> str:
    return (
        '<OGRVRTDataSource><OGRVRTLayer name="a"><SrcDataSource relativeToVRT="0">'
        f"{source}</SrcDataSource></OGRVRTLayer></OGRVRTDataSource>"
    )


@pytest.mark.parametrize("name", ["a.vrt", "a.gpkg", "a.geojson", "a.shp"])
@pytest.mark.parametrize(
    "wrapped", ["{}", '{{"type": "FeatureCollection", "x": "{}"}}', "SQLite format 3\0{}"]
)
def test_polygons_that_lie_in_other_files_are_refused(tmp_path, server, name, wrapped):
    url, requests = server
    other = tmp_path / "other.geojson"
    square = geopandas.GeoDataFrame({"class": ["a"]}, geometry=[shapely.box(0, 0, 1e7, 1e7)], crs=UTM)
    square.to_file(other)
    real = fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    for source in (other, f"/vsicurl/{url}/a.geojson"):
        (tmp_path / name).write_text(wrapped.format(ogr_vrt(str(source))))
        assert name in refusal(2, "brightness", real, "--mask", tmp_path / name, "-o", tmp_path / "out")
        with open_scene(real) as opened, pytest.raises(LabelError):
            read_labels(tmp_path / name, opened.grid)
    assert requests == [] and not (tmp_path / "out").exists()


def zipped(path: Path, names: dict[str, Path | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names.items():
            archive.writestr(name, content if isinstance(content, bytes) else content.read_bytes())
    return path


def test_a_zipped_shapefile_is_read_and_nothing_else_in_its_archive(tmp_path):
    square = geopandas.GeoDataFrame(
        {"class": ["a"]}, geometry=[shapely.box(500_060, 4_599_700, 500_400, 4_599_940)], crs=UTM
    )
    square.to_file(tmp_path / "p.shp")
    parts = {f"delivery/p{end}": tmp_path / f"p{end}" for end in (".shp", ".shx", ".dbf", ".prj")}
    vrt = {"delivery/a.vrt": ogr_vrt("/etc/passwd").encode(), "../p.shp.txt": b""}
    real = fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    with open_scene(real) as opened:
        plain = read_labels(tmp_path / "p.shp", opened.grid)
        packed = read_labels(zipped(tmp_path / "p.zip", parts | vrt), opened.grid)
    assert len(plain.row) > 0 and np.array_equal(plain.row, packed.row)
    for name, content in {
        "none": {"a.vrt": vrt["delivery/a.vrt"]},
        "two": parts | {"q.shp": tmp_path / "p.shp"},
        "false": {"p.shp": ogr_vrt("/etc/passwd").encode()},
        "both": {"p.shp": (tmp_path / "p.shp").read_bytes() + ogr_vrt("/etc/passwd").encode()},
        "bomb": parts | {"delivery/p.dbf": bytes(2**29 + 1)},
    }.items():
        path = zipped(tmp_path / f"{name}.zip", content)
        assert f"{name}.zip" in refusal(2, "brightness", real, "--mask", path, "-o", tmp_path / "out")


@pytest.mark.parametrize("driver", ["KML", "GML", "CSV"])
def test_polygons_in_other_formats_are_refused_with_the_way_out(tmp_path, driver):
    path, square = tmp_path / f"p.{driver.lower()}", shapely.box(2, 45, 3, 46)
    if driver == "CSV":
        path.write_text(f'class,WKT\na,"{square.wkt}"\n')
    else:
        geopandas.GeoDataFrame({"class": ["a"]}, geometry=[square], crs="EPSG:4326").to_file(
            path, driver=driver
        )
    real = fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    assert "ogr2ogr polygons.gpkg" in refusal(2, "brightness", real, "--mask", path, "-o", tmp_path / "out")
    with open_scene(real) as opened, pytest.raises(LabelError, match="ogr2ogr polygons"):
        read_labels(path, opened.grid)


def test_tables_that_show_other_files_are_refused(tmp_path):
    path = tmp_path / "labels.gpkg"
    square = geopandas.GeoDataFrame({"class": ["a"]}, geometry=[shapely.box(0, 0, 1, 1)], crs=UTM)
    square.to_file(path)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA writable_schema = 1")
        database.execute(
            "INSERT INTO sqlite_master VALUES ('table', 'v', 'v', 0, "
            "'CREATE VIRTUAL TABLE v USING VirtualOGR(''/etc/passwd'')')"
        )
    real = fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    with open_scene(real) as opened, pytest.raises(LabelError, match="virtual tables"):
        read_labels(path, opened.grid)


def external(file, place, canary):
    shape, dtype = file[place].shape, file[place].dtype
    del file[place]
    file.create_dataset(place, shape, dtype, external=[(str(canary), 0, h5py.h5f.UNLIMITED)])


def link(file, place, canary):
    other = canary.with_suffix(".h5")
    with h5py.File(other, "w") as kept:
        kept["data"] = file[place][()]
    del file[place]
    file[place] = h5py.ExternalLink(str(other), "/data")


def virtual(file, place, canary):
    other = canary.with_suffix(".h5")
    with h5py.File(other, "w") as kept:
        kept["data"] = file[place][()]
    shape, dtype = file[place].shape, file[place].dtype
    layout = h5py.VirtualLayout(shape, dtype)
    layout[:] = h5py.VirtualSource(str(other), "data", shape, dtype)
    del file[place]
    file.create_virtual_dataset(place, layout)


@pytest.mark.parametrize("hide", [external, link, virtual])
@pytest.mark.parametrize("product", ["prisma", "zip", "emit", "tanager"])
def test_hdf5_data_kept_in_other_files_are_refused(tmp_path, canary, hide, product):
    if product == "emit":
        glt = np.stack(np.meshgrid(np.arange(1, 7), np.arange(1, 9)), axis=-1)
        scene, place = fixtures.emit(tmp_path, "reflectance", CUBE, glt, np.ones(6)), "reflectance"
    elif product == "tanager":
        scene = fixtures.tanager(tmp_path, CUBE, WAVELENGTHS)
        place = "HDFEOS/SWATHS/HYP/Data Fields/toa_radiance"
    else:
        scene, place = (
            fixtures.prisma(tmp_path, "1", CUBE, CUBE),
            "HDFEOS/SWATHS/PRS_L1_HCO/Data Fields/SWIR_Cube",
        )
    with h5py.File(scene, "r+") as file:
        hide(file, place, canary)
    if product == "zip":
        scene = fixtures.zipped(scene, 8)
    assert "refers to data in other files" in refusal(1, "brightness", scene, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_coordinate_system_that_lies_elsewhere_is_refused(tmp_path, canary, server):
    url, requests = server
    glt = np.stack(np.meshgrid(np.arange(1, 7), np.arange(1, 9)), axis=-1)
    scene = fixtures.emit(tmp_path, "reflectance", CUBE, glt, np.ones(6))
    wkt = tmp_path / "elsewhere" / "crs.wkt"
    wkt.write_text('LOCAL_CS["read from a foreign file"]')
    for place in (str(wkt), f"{url}/crs", str(canary)):
        with h5py.File(scene, "r+") as file:
            file.attrs["spatial_ref"] = place
        assert "no usable map grid" in refusal(1, "brightness", scene, "-o", tmp_path / "out")
    real = fixtures.raster(tmp_path / "town.tif", IMAGE, band_tags=wavelength_tags(WAVELENGTHS))
    for crs in (
        {"type": "link", "properties": {"href": f"{url}/crs", "type": "ogcwkt"}},
        {"type": "url", "properties": {"url": f"{url}/crs"}},
        {"type": "name", "properties": {"name": f"{url}/crs"}},
    ):
        polygons = {"type": "FeatureCollection", "crs": crs, "features": []}
        (tmp_path / "p.geojson").write_text(json.dumps(polygons))
        assert "p.geojson" in refusal(2, "brightness", real, "--mask", tmp_path / "p.geojson")
    assert requests == []
