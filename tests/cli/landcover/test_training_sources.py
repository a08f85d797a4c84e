"""Which files a model is trained on, by name and hash."""

from __future__ import annotations

import hashlib

import geopandas
import numpy as np
import pytest
import shapely

from p3vae.cli.errors import SceneError
from p3vae.cli.landcover.train import training_sources
from p3vae.cli.landcover.train_settings import TrainSettings
from tests.cli.scenes import fixtures
from tests.cli.scenes.fixtures import UTM

IMAGE = fixtures.truth(20, 18, 6).astype(np.float32)


def polygons(path):
    geopandas.GeoDataFrame({"class": ["a"]}, geometry=[shapely.box(0, 0, 1, 1)], crs=UTM).to_file(path)
    return path


def sources(*scenes, labels):
    return training_sources(TrainSettings(scenes, labels, output=labels.with_name("m.p3vae")))


def expected(role, *files):
    return [
        {"role": role, "name": file.name, "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
        for file in files
    ]


def test_scenes_and_labels_are_listed_by_name_and_content(tmp_path):
    one = fixtures.raster(tmp_path / "one.tif", IMAGE)
    (tmp_path / "east").mkdir()
    other = fixtures.raster(tmp_path / "east" / "one.tif", IMAGE + 1)
    labels = polygons(tmp_path / "l.gpkg")
    found = sources(one, other, labels=labels)
    assert found == [*expected("scene", one, other), *expected("labels", labels)]
    assert found[0]["sha256"] != found[1]["sha256"]


def test_a_scene_of_two_files_counts_with_both_whichever_is_given(tmp_path):
    fields = {"wavelength": fixtures.envi_list(fixtures.WAVELENGTHS)}
    envi = fixtures.envi(tmp_path / "town.img", IMAGE, "bsq", fields)
    enmap = fixtures.enmap(
        tmp_path, "L2A", (IMAGE * 1e4).astype(np.int16), fixtures.WAVELENGTHS, gain=1e-4, offset=0
    )
    metadata = enmap.with_name(enmap.name.replace("SPECTRAL_IMAGE.TIF", "METADATA.XML"))
    labels = polygons(tmp_path / "l.gpkg")
    header = envi.with_suffix(".hdr")
    both = [*expected("scene", envi, header, enmap, metadata), *expected("labels", labels)]
    assert sources(envi, enmap, labels=labels) == both
    assert sources(header, metadata, labels=labels) == both


def test_an_emit_granule_counts_with_its_observation_angles(tmp_path):
    glt = np.ones((4, 4, 2))
    granule = fixtures.emit(tmp_path, "reflectance", IMAGE, glt, np.ones(6))
    observation = fixtures.emit_observation(tmp_path, 30.0, 150.0, 5.0)
    labels = polygons(tmp_path / "l.gpkg")
    found = sources(granule, labels=labels)
    assert found == [*expected("scene", granule, observation), *expected("labels", labels)]


def test_labels_count_with_the_files_that_name_their_classes(tmp_path):
    scene = fixtures.raster(tmp_path / "town.tif", IMAGE)
    shapefile = polygons(tmp_path / "l.shp")
    parts = [shapefile.with_suffix(end) for end in (".shp", ".dbf", ".shx", ".prj", ".cpg")]
    assert sources(scene, labels=shapefile)[1:] == expected("labels", *parts)
    raster = fixtures.raster(tmp_path / "l.tif", np.ones((20, 18, 1), np.uint8))
    names = tmp_path / "l.tif.aux.xml"
    names.write_text("<PAMDataset/>")
    assert sources(scene, labels=raster)[1:] == expected("labels", raster, names)


def test_a_file_geodatabase_counts_with_all_its_files(tmp_path):
    scene = fixtures.raster(tmp_path / "town.tif", IMAGE)
    folder = tmp_path / "l.gdb"
    frame = geopandas.GeoDataFrame({"class": ["a"]}, geometry=[shapely.box(0, 0, 1, 1)], crs=UTM)
    frame.to_file(folder, driver="OpenFileGDB")
    assert sources(scene, labels=folder)[1:] == expected("labels", *sorted(folder.iterdir()))


def test_a_scene_that_is_gone_is_named(tmp_path):
    with pytest.raises(SceneError, match=r"gone\.tif: no such file"):
        sources(tmp_path / "gone.tif", labels=polygons(tmp_path / "l.gpkg"))
