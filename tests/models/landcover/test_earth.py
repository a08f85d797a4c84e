"""The shipped model `earth`, how it is made, and how it is brought to the bands of a sensor."""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from benchmarks.earth_library import __main__ as build_command
from benchmarks.earth_library.ground import Ground
from benchmarks.earth_library.legend import CLASSES, MATERIALS, legend
from benchmarks.earth_library.sources import SOURCES, model_bands, read_spectra
from p3vae.cli.run.model_files import default_land_cover
from p3vae.models.landcover.library.decoder import LightPrior
from p3vae.models.landcover.library.scene import Basis, fitted_coefficients
from p3vae.models.landcover.library.solver import PosteriorSolver
from p3vae.models.landcover.model import load_model
from p3vae.models.landcover.sensors import fit_sensor, usable_bands
from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.snow import snow_albedo
from p3vae.physics.spectral_response import Bands
from p3vae.physics.water import water_reflectance

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results" / "earth.json"
LARGEST_BYTES = 3_000_000


@pytest.fixture(scope="module")
def earth():
    return load_model(default_land_cover())


def sensor(low, high, step, width=None):
    centres = np.arange(low, high + 1, step, dtype=float)
    return Bands.from_centres(centres, np.full(len(centres), width or step))


def test_the_file_is_small_and_its_legend_has_the_codes_of_worldcover(earth):
    assert default_land_cover().stat().st_size < LARGEST_BYTES
    codes = dict(zip(earth.legend.names, earth.legend.ids, strict=True))
    assert codes["tree"] == 10 and codes["built-up"] == 50 and codes["water"] == 80
    assert earth.legend == legend()


def test_the_card_claims_what_was_measured_and_names_every_source(earth):
    said = earth.estimator.description
    assert said["validated_on"] == json.loads(RESULTS.read_text())["card"]
    assert {source["name"] for source in said["made_from"]} == {source.name for source in SOURCES.values()}
    notice = (ROOT / "NOTICE").read_text()
    assert all(source["name"] in notice for source in said["made_from"])
    assert all(source["sha256"] for source in said["made_from"] if source["file"])


@pytest.mark.skipif("P3VAE_DATA" not in os.environ, reason="the real scenes are not part of the repository")
def test_the_accuracy_on_a_real_scene_is_the_one_claimed(earth):
    """Jasper Ridge, straight from the model."""
    table = np.load(Path(os.environ["P3VAE_DATA"]) / "real" / "jasper.npz")
    bands = Bands.from_centres(table["wavelength_nm"].astype(float))
    model = fit_sensor(earth, bands).model
    label = table["label"]
    spectra = table["cube"][label > 0][:, usable_bands(earth.bands, bands)] / 1e4
    light = clear_sky_irradiance(model.bands, float(table["sun_zenith_deg"]))
    found = model.predict(spectra.astype(np.float32), light).class_id
    wanted = {1: (10, 30, 110), 2: (80,), 3: (60,), 4: (50,)}
    right = [id_ in wanted[truth] for id_, truth in zip(found, label[label > 0], strict=True)]
    claimed = float(earth.estimator.description["validated_on"]["jasper"].split()[1])
    assert np.mean(right) == pytest.approx(claimed, abs=0.01)


def test_bands_that_a_sensor_lacks_are_integrated_out_exactly(earth):
    """Beside the density of the multivariate normal distribution at those bands, from its definition."""
    chosen = np.arange(0, len(earth.bands), 5)
    part = earth.estimator.at_bands(earth.bands, earth.bands.select(chosen))
    light = clear_sky_irradiance(earth.bands.select(chosen), 40.0)
    flat = replace(part, prior=LightPrior.flat(1.0, 1e-6))
    solver = flat.solver(light)
    spectra = part.library.mean[:6] * 1.05
    found = solver.log_likelihood(torch.as_tensor(spectra, dtype=torch.float32))[:, 0, :8].numpy()
    whole = earth.estimator.library
    expected = np.empty((6, 8))
    for k in range(8):
        covariance = whole.directions[k].T @ whole.directions[k] + whole.factors.T @ whole.factors
        covariance = (covariance + np.diag(whole.noise))[np.ix_(chosen, chosen)]
        expected[:, k] = multivariate_normal(whole.mean[k, chosen], covariance).logpdf(spectra)
    centred = [values - values.mean(1, keepdims=True) for values in (found, expected)]
    np.testing.assert_allclose(*centred, rtol=0.02, atol=0.5)


def test_the_product_of_lower_rank_gives_the_same_posterior(earth):
    light = clear_sky_irradiance(earth.bands, 35.0)
    ratios = np.stack([light.direct_ratio, light.diffuse_ratio])
    estimator = earth.estimator
    prior = replace(estimator.prior, mean=estimator.prior.mean * (np.cos(np.radians(35.0)), 1.0))
    full = PosteriorSolver.build(estimator.library, prior, ratios, class_prior=estimator.weight)
    low = estimator.solver(light)
    assert low.weights.shape[0] < full.weights.shape[0] / 2
    spectra = torch.as_tensor(estimator.library.mean, dtype=torch.float32)
    exact, near = full.solve(spectra), low.solve(spectra)
    probability = [found.logits.softmax(1) for found in (exact, near)]
    assert float((probability[0] - probability[1]).abs().max()) < 0.1
    assert float((exact.sun - near.sun).abs().max()) < 0.05
    assert float((exact.distance - near.distance).abs().max()) < 0.02 * len(earth.bands)


def test_without_the_short_wave_infrared_bare_and_dry_are_one_class(earth):
    fit = fit_sensor(earth, sensor(400, 1000, 10))
    assert "bare ground or dry vegetation" in fit.model.legend.names
    assert len(fit.model.legend) == len(earth.legend) - 2
    assert "2000-2400 nm" in fit.notes[0] and "1500-1800 nm" in fit.notes[1]
    assert fit_sensor(earth, sensor(400, 2450, 10)).notes == ()
    assert not usable_bands(earth.bands, sensor(1370, 1440, 10)).any()


@pytest.mark.parametrize("bands", [sensor(400, 2500, 6), sensor(430, 1000, 15), sensor(1500, 2400, 20)])
def test_water_and_snow_are_found_with_any_sensor(earth, bands):
    model = fit_sensor(earth, bands).model
    nm = model.bands.wavelength_nm
    light = clear_sky_irradiance(model.bands, 40.0)
    water = [water_reflectance(nm, sediment=s, glint=0.005) for s in (0.5, 3.0, 8.0)]
    snow = [snow_albedo(nm, area, 50.0) for area in (15.0, 30.0, 60.0)]
    ids = model.predict(np.array(water + snow, np.float32), light).class_id
    if nm[0] < 1000:
        assert set(ids[:3]) == {80} and set(ids[3:]) == {70}
    else:
        assert set(ids[3:]) == {70}, "in the short-wave infrared alone, water is as dark as shadow"


def test_sunlit_level_ground_has_the_irradiance_of_the_sun(earth):
    for zenith in (25.0, 50.0):
        light = clear_sky_irradiance(earth.bands, zenith)
        owner = np.asarray(material_names(earth))
        land = earth.estimator.library.mean[np.isin(owner, ("asphalt", "soil", "grass"))]
        found = earth.predict(land.astype(np.float32), light).irradiance
        assert np.median(found) == pytest.approx(np.cos(np.radians(zenith)), abs=0.15)


def material_names(model):
    return [model.estimator.materials[k] for k in model.estimator.material]


def test_fractions_sum_to_one_and_halves_are_seen(earth):
    light = clear_sky_irradiance(earth.bands, 35.0)
    owner = np.asarray(material_names(earth))
    grass, asphalt = (earth.estimator.library.mean[owner == name][0] for name in ("grass", "asphalt"))
    mixed = 0.5 * grass + 0.5 * asphalt
    spectra = torch.as_tensor(np.stack([grass, mixed, asphalt]), dtype=torch.float32)
    found = earth.estimator.cover(spectra, light)
    np.testing.assert_allclose(found.fraction.sum(1), 1, atol=1e-4)
    built = found.fraction[:, earth.legend.names.index("built-up")]
    assert built[0] < 0.1 < built[1] and built[2] > 0.6
    assert built[1] < built[2] - 0.1
    assert (found.fraction_std >= 0).all()


def test_what_no_library_holds_is_out_of_distribution(earth):
    light = clear_sky_irradiance(earth.bands, 35.0)
    stripes = 0.3 + 0.2 * np.sign(np.sin(earth.bands.wavelength_nm / 40))
    assert earth.predict(stripes[None].astype(np.float32), light).misfit[0] > 1
    known = earth.predict(earth.estimator.library.mean.astype(np.float32), light)
    assert (known.misfit <= 1).all()


@pytest.fixture
def libraries(tmp_path):
    """Files of the layout that the build reads, with a few made-up spectra."""
    nm = np.arange(400, 2481, 5.0)
    titles = [
        "Brick GDS1",
        "Lawn_Grass GDS91 (Green)",
        "Rangeland C03 S05% G10%",
        "Quartz",
        "Melting_snow mSnw1a",
    ]
    flat = np.linspace(0.1, 0.3, len(nm))
    green = np.where(nm < 700, 0.05, 0.4)
    np.savez(
        tmp_path / SOURCES["usgs"].file,
        wavelength_nm=nm,
        reflectance=np.stack([flat, green, flat, flat, flat[::-1]]),
        title=np.array(titles),
    )
    np.savez(
        tmp_path / SOURCES["slum"].file,
        wavelength_nm=nm,
        reflectance=np.stack([flat, flat]),
        code=np.array(["A001", "Z002"]),
    )
    rows = [
        ("soil", "icraf-isric-soil-database", "none"),
        ("canopy", "prosail", "modeled canopy reflectance"),
        ("paint", "asd", "urban reflectance spectra from santa barbara"),
        ("wood_shingle", "asd", "urban reflectance spectra from santa barbara"),
    ]
    text = "NAME,LEVEL_1,LEVEL_2,LEVEL_3,LEVEL_4,LAT,LON,SOURCE,NOTES\n"
    text += "".join(f"n,a,b,{kind},measured,0,0,{source},{notes}\n" for kind, source, notes in rows)
    micrometres = np.arange(0.4, 2.451, 0.01)
    values = np.tile(np.linspace(0.1, 0.4, len(micrometres)), (len(rows), 1)).astype("<f4")
    with zipfile.ZipFile(tmp_path / SOURCES["prosail"].file, "w") as wheel:
        wheel.writestr("earthlib/data/spectra.csv", text)
        wheel.writestr("earthlib/data/spectra.sli", values.tobytes())
        header = "ENVI\nwavelength = { " + " , ".join(f"{w:.2f}" for w in micrometres) + " }\n"
        wheel.writestr("earthlib/data/spectra.sli.hdr", header)
    return tmp_path


def test_spectra_get_their_material_and_a_source_can_be_left_out(libraries):
    wheel = libraries / SOURCES["prosail"].file
    found = {(one.material, one.source): one.reflectance for one in read_spectra(libraries, wheel)}
    assert ("brick", "usgs") in found and ("metal", "slum") in found and ("paint", "santa-barbara") in found
    assert ("dry grass and litter", "usgs") in found, "rangeland with 10 % of green"
    assert len(found[("soil", "icraf-isric")]) == 1
    assert all(values.shape[1] == len(model_bands()) for values in found.values())
    without = read_spectra(libraries, wheel, ("santa-barbara",))
    assert not [one for one in without if one.source == "santa-barbara"]


def test_ground_is_balanced_by_source_and_its_fractions_sum_to_one(libraries):
    ground = Ground(model_bands().wavelength_nm, read_spectra(libraries, libraries / SOURCES["prosail"].file))
    spectra, fraction = ground.pixels("asphalt", 300, np.random.default_rng(0))
    np.testing.assert_allclose(fraction.sum(1), 1)
    own = fraction[:, list(CLASSES).index(MATERIALS["asphalt"])]
    assert own.min() >= 0.5 and 0.2 < (own == 1).mean() < 0.45
    assert np.isfinite(spectra).all()


def test_the_build_refuses_files_it_was_not_written_for(libraries, monkeypatch, tmp_path):
    arguments = ["build", "--data", str(libraries), "-o", str(tmp_path / "out.p3vae")]
    monkeypatch.setattr("sys.argv", arguments)
    with pytest.raises(SystemExit, match="not the file this was written for"):
        build_command.main()
    assert not (tmp_path / "out.p3vae").exists()


def in_relief(earth, count, seed):
    """Library ground on slopes and in shade, (pixels, bands)."""
    rng = np.random.default_rng(seed)
    light, library = earth.irradiance, earth.estimator.library
    known = ("grass", "asphalt", "soil", "clay tile", "concrete and stone")
    land = library.mean[np.isin(material_names(earth), known)]
    of = rng.integers(len(land), size=count)
    z, w = rng.uniform(0.05, 0.9, (count, 1)), rng.uniform(0.5, 1, (count, 1))
    seen = (z * light.direct_ratio + w * light.diffuse_ratio) * land[of]
    return (seen + rng.normal(0, 0.003, seen.shape)).astype(np.float32)


def test_relief_is_not_taken_for_a_gain_of_the_scene(earth):
    basis = Basis.at(earth.bands.wavelength_nm)
    found = fitted_coefficients(in_relief(earth, 1000, 0).astype(float), earth.estimator._classes, basis)
    assert np.abs(basis.gain(found) - 1).max() < 0.03 and np.abs(basis.offset(found)).max() < 0.006


@pytest.mark.parametrize("blue", [-0.03, 0.03])
def test_haze_of_the_scene_is_found_for_the_most_part(earth, blue):
    spectra, nm = in_relief(earth, 1000, 1), earth.bands.wavelength_nm
    haze = blue * np.exp(-(nm - 400) / 150)
    plain, changed = (earth.in_scene(one)[1] for one in (spectra, (spectra + haze).astype(np.float32)))
    found = changed.offset - plain.offset
    assert np.abs(found - haze).max() < 0.4 * abs(blue)
    assert found[0] / haze[0] > 0.6


def test_without_short_wave_infrared_no_gain_is_taken_from_a_scene(earth):
    model = fit_sensor(earth, sensor(400, 1000, 10)).model
    assert model.in_scene(np.full((500, len(model.bands)), 0.3, np.float32))[1] is None
