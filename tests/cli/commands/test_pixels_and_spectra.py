"""`p3vae explain`, `suggest` and `spectra`."""

from __future__ import annotations

import json

import geopandas
import numpy as np
import pytest
import rasterio
from spectral.io import envi

from p3vae.models.landcover.model import load_model
from tests.cli.calls import refusal, run


def explained(town, *arguments):
    done = run("explain", town / "town.tif", "-m", town / "town.p3vae", *arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_pixel_is_explained_as_it_is_mapped(mapped_town) -> None:
    with rasterio.open(mapped_town / "maps" / "town_landcover.tif") as source:
        mapped = source.read(1)
        x, y = source.xy(12, 20)
    with rasterio.open(mapped_town / "maps" / "town_irradiance.tif") as source:
        light = source.read(1)[12, 20]
    found = explained(mapped_town, "--pixel", "20,12")
    assert explained(mapped_town, "--at", f"{x},{y}") == found
    legend = load_model(mapped_town / "town.p3vae").legend
    if mapped[12, 20] != 255:
        assert found["classes"][0]["class"] == legend.names[legend.ids.index(int(mapped[12, 20]))]
    assert found["irradiance"] == pytest.approx(light, abs=1e-5)
    assert sum(entry["probability"] for entry in found["classes"]) == pytest.approx(1, abs=1e-5)
    first, second = (np.array(entry["fitted"]) for entry in found["classes"][:2])
    observed = np.array(found["observed"])
    assert np.abs(first - observed).mean() < np.abs(second - observed).mean()
    low, high = found["second_class_fits_worst_nm"]
    assert found["wavelength_nm"][0] <= low < high <= found["wavelength_nm"][-1]


def test_coordinates_of_another_crs(mapped_town) -> None:
    with rasterio.open(mapped_town / "town.tif") as source:
        x, y = source.xy(12, 20)
        point = geopandas.GeoSeries.from_xy([x], [y], crs=source.crs).to_crs(4326)[0]
    found = explained(mapped_town, "--at", f"{point.x:.9f},{point.y:.9f}", "--crs", "EPSG:4326")
    assert found["pixel"] == [20, 12]


def test_the_misfit_is_that_of_the_map_and_is_put_into_words(mapped_town) -> None:
    """Unknown in the map, and above one, is unlike anything learned; all else is like it."""
    with rasterio.open(mapped_town / "maps" / "town_landcover.tif") as source:
        unknown = source.read(1) == 255
    assert unknown.any() and not unknown.all()
    for wanted, words in ((True, "unlike anything"), (False, "like what")):
        row, col = np.argwhere(unknown == wanted)[0]
        pixel = ("--pixel", f"{col},{row}")
        assert (explained(mapped_town, *pixel)["misfit"] > 1) == wanted
        done = run("explain", mapped_town / "town.tif", "-m", mapped_town / "town.p3vae", *pixel)
        said = next(line for line in done.stdout.splitlines() if line.startswith("Misfit"))
        assert f": {words} the model learned (unknown above 1)" in said


def test_an_explanation_for_people_and_as_drawings(mapped_town, tmp_path) -> None:
    call = ("explain", mapped_town / "town.tif", "-m", mapped_town / "town.p3vae", "--pixel", "20,12")
    for name in ("pixel.html", "pixel.png"):
        done = run(*call, "-o", tmp_path / name)
        assert done.exit_code == 0, done.output
    assert "Direct light" in done.stdout and "Why not" in done.stdout
    assert max(map(len, done.stdout.splitlines()[3:12])) <= 80
    assert "<svg" in (tmp_path / "pixel.html").read_text()
    assert (tmp_path / "pixel.png").read_bytes().startswith(b"\x89PNG")
    assert "exists already" in refusal(1, *call, "-o", tmp_path / "pixel.png")
    assert ".html nor .png" in refusal(2, *call, "-o", tmp_path / "pixel.jpg")


def test_places_that_cannot_be_explained(mapped_town, tmp_path) -> None:
    of_town = ("-m", mapped_town / "town.p3vae")
    call = ("explain", mapped_town / "town.tif", *of_town)
    assert "outside the scene" in refusal(2, *call, "--pixel", "64,3")
    assert "outside the scene" in refusal(2, *call, "--at", "1,43")
    assert "--at X,Y or --pixel" in refusal(2, *call)
    assert "--at X,Y or --pixel" in refusal(2, *call, "--pixel", "1,1", "--at", "1,1")
    assert "not two whole numbers" in refusal(2, *call, "--pixel", "a,3")
    assert "is not a CRS" in refusal(2, *call, "--at", "1,1", "--crs", "nonsense")
    with rasterio.open(mapped_town / "town.tif") as source:
        image, profile, tags = source.read(), source.profile, source.tags()
        band_tags, scales = [source.tags(band) for band in source.indexes], source.scales
    image[:, 3, 4] = profile["nodata"]
    with rasterio.open(tmp_path / "hole.tif", "w", **profile) as made:
        made.write(image)
        made.update_tags(**tags)
        made.scales = scales
        for band, its in enumerate(band_tags, start=1):
            made.update_tags(band, **its)
    assert "nodata" in refusal(1, "explain", tmp_path / "hole.tif", *of_town, "--pixel", "4,3")


def test_suggestions_are_doubtful_and_diverse(mapped_town, tmp_path) -> None:
    made = tmp_path / "label.gpkg"
    call = ("suggest", mapped_town / "town.tif", "-m", mapped_town / "town.p3vae", "-o", made, "-n", 12)
    done = run(*call, "--json")
    assert done.exit_code == 0, done.output
    found, frame = json.loads(done.stdout), geopandas.read_file(made)
    assert len(found) == len(frame) == 12 and frame["class"].isna().all()
    assert len({(place["row"], place["col"]) for place in found}) == 12
    with rasterio.open(mapped_town / "maps" / "town_landcover.tif") as source:
        mapped = source.read(1)
        sampled = np.array([value[0] for value in source.sample(frame.get_coordinates().to_numpy())])
    reasons = np.array([place["reason"] for place in found])
    assert np.array_equal(sampled == 255, reasons == "unknown")
    with rasterio.open(mapped_town / "maps" / "town_confidence.tif") as source:
        confidence = source.read(1)
    chosen = np.mean([place["confidence"] for place in found])
    assert chosen < confidence.mean() or (sampled == 255).mean() > (mapped == 255).mean()
    assert "exists already" in refusal(1, *call)


def test_spectra_open_in_spy_and_as_a_table(mapped_town, tmp_path) -> None:
    model = load_model(mapped_town / "town.p3vae")
    made = [tmp_path / f"lib{suffix}" for suffix in (".sli", ".csv", ".html", ".png")]
    done = run("spectra", mapped_town / "town.p3vae", *(part for path in made for part in ("-o", path)))
    assert done.exit_code == 0, done.output
    library = envi.open(str(tmp_path / "lib.hdr"))
    known = [np.asarray(own) for own in model.latent_spectra()]
    for name, own in zip(model.legend.names, known, strict=True):
        written = library.spectra[[entry.startswith(f"{name} ") for entry in library.names]]
        assert written[0] == pytest.approx(own[0], abs=1e-6) and 1 < len(written) <= len(own)
        assert all(np.abs(own - line).max(axis=1).min() < 1e-6 for line in written)
        assert (np.abs(written[1:] - written[0]).max(axis=1) > 0.005 * written[0].max()).all(), "no doubles"
    assert library.bands.centers == pytest.approx(model.bands.wavelength_nm, abs=1e-3)
    assert library.names[0] == f"{model.legend.names[0]} 1"
    table = np.genfromtxt(tmp_path / "lib.csv", delimiter=",", skip_header=1)
    assert np.allclose(table[:, 2:].T, library.spectra, atol=1e-5)
    assert "is none of" in refusal(2, "spectra", mapped_town / "town.p3vae", "-o", tmp_path / "lib.txt")


def test_the_shipped_model_explains_and_suggests_on_other_bands(mapped_town, tmp_path) -> None:
    """It is brought to the bands of a scene, as for classify."""
    with rasterio.open(mapped_town / "town.tif") as source:
        profile, values = source.profile, source.read()[4:]
        tags, notes = source.tags(), source.descriptions[4:]
        own = [source.tags(band) for band in range(5, source.count + 1)]
    profile |= {"count": len(values)}
    with rasterio.open(tmp_path / "part.tif", "w", **profile) as made:
        made.write(values)
        made.update_tags(**tags)
        made.scales = [1e-4] * len(values)
        for band, (note, tag) in enumerate(zip(notes, own, strict=True), 1):
            made.set_band_description(band, note)
            made.update_tags(band, **tag)
    done = run("explain", tmp_path / "part.tif", "--pixel", "30,20", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["classes"][0]["probability"] > 0.3 and found["wavelength_nm"][0] > 500
    assert run("suggest", tmp_path / "part.tif", "-o", tmp_path / "s.gpkg", "-n", 4).exit_code == 0


def test_info_draws_the_spectra_of_a_model(mapped_town) -> None:
    """A block per 44 nm from 400 to 2450 nm, as high as the reflectance of the class there."""
    said = run("info", mapped_town / "town.p3vae").stdout.splitlines()
    card = json.loads(run("info", mapped_town / "town.p3vae", "--json").stdout)
    start = next(number for number, line in enumerate(said) if "Mean reflectance, 0 to " in line)
    top = float(said[start].split("0 to ")[1].split(",")[0])
    assert top == pytest.approx(max(max(one) for one in card["spectra"]), abs=0.006)
    nm = np.linspace(400.0, 2450.0, 48)
    for line, name, one in zip(said[start + 1 :], card["classes"]["names"], card["spectra"], strict=False):
        drawn = line[line.index(name) :][len(max(card["classes"]["names"], key=len)) + 1 :].rstrip()
        level = np.array([" ▁▂▃▄▅▆▇█".index(each) for each in drawn])
        known = level > 0
        assert known.mean() > 0.7
        expected = np.interp(nm[: len(level)], card["bands"]["wavelength_nm"], one) / top
        assert np.abs((level[known] - 1) / 7 - expected[known]).max() < 0.11
