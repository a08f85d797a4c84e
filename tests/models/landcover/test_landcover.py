"""Training, prediction and storage of the land-cover model on a tiny scene."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from p3vae.models.checkpoint import ModelFormatError, load_state, read_card, save_state, write_model_file
from p3vae.models.landcover.model import load_model, model_file, save_model
from p3vae.models.landcover.train import train_land_cover
from p3vae.models.landcover.types import ClassLegend, TrainingError, TrainingSet, TrainingSettings
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.spectral_response import Bands

BANDS = Bands.from_centres(np.linspace(450.0, 2400.0, 24))
COS0 = np.cos(np.radians(30.0))
LEGEND = ClassLegend((3, 7, 9), ("grass", "roof", "road"), ((0, 160, 0), (200, 60, 0), (90, 90, 90)))
QUICK = TrainingSettings(seed=1)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def irradiance() -> SpectralIrradiance:
    wave = BANDS.wavelength_nm
    return SpectralIrradiance(wave, 1500 * np.exp(-wave / 900), 900 * np.exp(-wave / 350), 30.0)


def materials() -> np.ndarray:
    wave = BANDS.wavelength_nm
    grass = 0.05 + 0.4 / (1 + np.exp(-(wave - 720) / 20)) * np.exp(-np.clip(wave - 1100, 0, None) / 700)
    roof = 0.08 + 0.35 * (1 - np.exp(-(wave - 400) / 500))
    road = 0.12 + 0.04 * np.sin(wave / 400)
    return np.stack([grass, roof, road])


def pixels(irradiance, count: int, seed: int, flat: bool):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 3, count)
    z = np.full(count, COS0) if flat else rng.uniform(0, 1, count)
    w = np.ones(count) if flat else rng.uniform(0.4, 1, count)
    light = z[:, None] * irradiance.direct_ratio + w[:, None] * irradiance.diffuse_ratio
    spectra = light * materials()[truth] * (1 + 0.01 * rng.standard_normal((count, 1)))
    return (spectra + 0.002 * rng.standard_normal(spectra.shape)).astype(np.float32), truth, z


@pytest.fixture(scope="module")
def data(irradiance) -> TrainingSet:
    spectra, truth, _ = pixels(irradiance, 150, 0, flat=True)
    unlabelled = pixels(irradiance, 300, 1, flat=False)[0]
    return TrainingSet(spectra, truth, truth * 10 + np.arange(150) % 3, unlabelled)


@pytest.fixture(scope="module")
def model(data, irradiance):
    return train_land_cover(data, BANDS, irradiance, LEGEND, QUICK)


def test_finds_classes_and_light_in_shadow(model, irradiance):
    spectra, truth, z = pixels(irradiance, 500, 5, flat=False)
    found = model.predict(spectra, irradiance, want_probabilities=True)
    right = found.class_id == np.array(LEGEND.ids)[truth]
    assert right.mean() > 0.97
    assert np.abs(found.irradiance - z).mean() < 0.06
    assert found.probabilities.shape == (500, 3)
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-5)
    np.testing.assert_allclose(found.probabilities.max(1), found.confidence)
    assert (found.irradiance_std > 0).all()
    assert np.mean(np.abs(found.irradiance - z) <= 1.96 * found.irradiance_std) > 0.9


def test_the_classifier_knows_the_light_of_its_labels_only(irradiance, model, tmp_path):
    save_model(tmp_path / "model.p3vae", model)
    loaded = load_model(tmp_path / "model.p3vae")
    right = {}
    for flat in (True, False):
        spectra, truth, _ = pixels(irradiance, 500, 5, flat=flat)
        for method in loaded.methods:
            found = loaded.predict(spectra, irradiance, method=method)
            right[method, flat] = (found.class_id == np.array(LEGEND.ids)[truth]).mean()
            np.testing.assert_array_equal(found.irradiance, model.predict(spectra, irradiance).irradiance)
    assert right["classifier", True] > 0.99
    assert right["classifier", False] < right["posterior", False] - 0.02


def test_codes_lead_back_to_the_spectra(model, irradiance):
    spectra, truth, z = pixels(irradiance, 60, 14, flat=False)
    codes = model.codes(spectra, irradiance)
    assert np.abs(codes[:, 0] - z).mean() < 0.06
    for index in range(3):
        mine = truth == index
        made = model.generate(index, codes[mine], irradiance)
        assert np.abs(made - spectra[mine]).mean() < 0.1 * spectra[mine].mean()


def test_relighting_brings_shadow_back(model, irradiance):
    spectra, truth, z = pixels(irradiance, 200, 6, flat=False)
    relit = model.relight(spectra, irradiance)
    bright = z > 0.2
    error = np.abs(relit - materials()[truth])[bright].mean()
    assert error < 0.3 * np.abs(spectra - materials()[truth])[bright].mean()
    spectra[7] = 0.0
    assert np.isnan(model.relight(spectra, irradiance)).any(1).nonzero()[0].tolist() == [7]


def test_another_sun_is_only_another_irradiance(model, irradiance):
    wave = irradiance.wavelength_nm
    low = SpectralIrradiance(wave, 500 * np.exp(-wave / 1500), 700 * np.exp(-wave / 350), 60.0)
    spectra, truth, z = pixels(low, 300, 7, flat=False)
    found = model.predict(spectra, low)
    assert (found.class_id == np.array(LEGEND.ids)[truth]).mean() > 0.95
    assert np.abs(found.irradiance - z).mean() < 0.08


def test_useless_pixels_are_nodata_and_unlike_ones_out_of_distribution(model, irradiance):
    spectra = pixels(irradiance, 4, 8, flat=True)[0]
    spectra[0, 3] = np.nan
    spectra[1] = 0.0
    spectra[2] = 0.5 + 0.45 * (-1.0) ** np.arange(len(BANDS))
    found = model.predict(spectra, irradiance)
    assert found.class_id[:2].tolist() == [0, 0]
    assert found.confidence[:2].tolist() == [0, 0]
    assert found.misfit[2] > 1 > found.misfit[3]
    assert model.predict(spectra[:0], irradiance).class_id.shape == (0,)


@pytest.mark.parametrize("layout", ["C", "F"])
def test_calls_can_be_split_anyhow(model, irradiance, layout):
    spectra = np.asarray(pixels(irradiance, 101, 9, flat=False)[0], order=layout)
    whole, *parts = (
        model.predict(part, irradiance, want_probabilities=True)
        for part in (spectra, *np.split(spectra, (1, 3, 8, 40, 41)))
    )
    for name in ("class_id", "probabilities", "irradiance", "irradiance_std"):
        np.testing.assert_array_equal(np.concatenate([getattr(p, name) for p in parts]), getattr(whole, name))


@pytest.mark.parametrize("layout", ["C", "F"])
def test_the_only_usable_pixel_of_a_tile_is_the_one_it_is_among_others(model, irradiance, layout):
    spectra = np.asarray(pixels(irradiance, 40, 9, flat=False)[0], order=layout)
    whole = model.predict(spectra, irradiance, want_probabilities=True)
    for row in range(len(spectra)):
        tile = np.full_like(spectra, np.nan)
        tile[row] = spectra[row]
        alone = model.predict(tile, irradiance, want_probabilities=True)
        np.testing.assert_array_equal(alone.probabilities[row], whole.probabilities[row])
        assert alone.irradiance[row] == whole.irradiance[row]


def test_same_seed_same_model(data, irradiance, model):
    again = train_land_cover(data, BANDS, irradiance, LEGEND, QUICK)
    assert again.digest == model.digest


def test_resumed_equals_uninterrupted(data, irradiance, tmp_path):
    settings = TrainingSettings(model="cnn", epochs=4, seed=1)
    states, reports = [], []
    whole = train_land_cover(data, BANDS, irradiance, LEGEND, settings, save_state=states.append)
    save_state(tmp_path / "state", states[1])
    state = load_state(tmp_path / "state")
    resumed = train_land_cover(
        data, BANDS, irradiance, LEGEND, settings, resume_from=state, on_epoch=reports.append
    )
    assert [report.epoch for report in reports] == [3, 4]
    assert resumed.digest == whole.digest
    with pytest.raises(TrainingError, match="other data or settings"):
        train_land_cover(data, BANDS, irradiance, LEGEND, replace(settings, seed=2), resume_from=states[1])


def test_published_preset_trains_and_predicts(data, irradiance, tmp_path):
    reports = []
    settings = TrainingSettings(preset="paper", epochs=6, batch_size=32)
    model = train_land_cover(data, BANDS, irradiance, LEGEND, settings, on_epoch=reports.append)
    assert reports[-1].losses["total"] < reports[0].losses["total"]
    assert {"labelled", "unlabelled", "supervised"} <= set(reports[0].losses)
    spectra = pixels(irradiance, 60, 10, flat=True)[0]
    whole = model.predict(spectra, irradiance)
    parts = [model.predict(part, irradiance) for part in (spectra[:7], spectra[7:])]
    np.testing.assert_allclose(np.concatenate([p.irradiance for p in parts]), whole.irradiance, atol=1e-5)
    save_model(tmp_path / "m", model)
    again = load_model(tmp_path / "m").predict(spectra, irradiance)
    np.testing.assert_array_equal(again.class_id, whole.class_id)


def test_scores_are_of_polygons_that_were_not_learned_from(irradiance):
    """Every polygon shows a material of its own and classes are dealt out in turn: nothing carries over."""
    rng = np.random.default_rng(3)
    corners = rng.uniform(0.05, 0.6, (12, 6))
    position = np.linspace(0, 5, len(BANDS))
    own = np.stack([np.interp(position, np.arange(6), corner) for corner in corners])
    polygon = np.repeat(np.arange(12), 12)
    spectra = own[polygon] + 0.002 * rng.standard_normal((144, len(BANDS)))
    data = TrainingSet(spectra.astype(np.float32), polygon % 3, polygon, np.zeros((0, 24), np.float32))
    model = train_land_cover(data, BANDS, irradiance, LEGEND, TrainingSettings())
    own_class = np.array(LEGEND.ids)[data.class_index]
    found = model.predict(data.spectra, irradiance)
    assert (found.class_id == own_class).mean() > model.summary.accuracy + 0.1
    assert model.summary.average_f1 < 0.5
    assert model.summary.log_loss > 0.8
    confusion = np.array(model.summary.confusion)
    assert np.trace(confusion) / confusion.sum() == pytest.approx(model.summary.accuracy)
    assert found.confidence.mean() < 0.8


def test_sky_offset_is_used_kept_and_refused_where_it_means_nothing(data, irradiance, tmp_path):
    settings = TrainingSettings(preset="paper", epochs=1, sky_offset=0.6)
    model = train_land_cover(data, BANDS, irradiance, LEGEND, settings)
    save_model(tmp_path / "m", model)
    again = load_model(tmp_path / "m")
    assert again.settings.sky_offset == 0.6
    found = again.predict(pixels(irradiance, 20, 10, flat=True)[0], irradiance)
    np.testing.assert_allclose(found.sky, found.irradiance + 0.6, rtol=1e-6)
    with pytest.raises(TrainingError, match="sky offset"):
        train_land_cover(data, BANDS, irradiance, LEGEND, replace(QUICK, sky_offset=0.6))


def test_files_from_before_the_sky_offset_are_read(model, tmp_path):
    file = model_file(model)
    settings = {name: value for name, value in file.card["settings"].items() if name != "sky_offset"}
    write_model_file(tmp_path / "m", replace(file, card={**file.card, "settings": settings}))
    assert load_model(tmp_path / "m").settings == model.settings


def test_published_preset_knows_noise_from_ground(data, irradiance):
    settings = TrainingSettings(preset="paper", epochs=20, batch_size=32, seed=1)
    model = train_land_cover(data, BANDS, irradiance, LEGEND, settings)
    noise = np.random.default_rng(0).uniform(0, 1, (300, len(BANDS))).astype(np.float32)
    sunlit, shaded = (pixels(irradiance, 300, 10, flat)[0] for flat in (True, False))
    unknown = [(model.predict(x, irradiance).misfit > 1).mean() for x in (noise, sunlit, shaded)]
    assert unknown[0] > 0.95
    assert unknown[1] < 0.03
    assert unknown[2] < 0.3  # the labels show no shadow


def test_a_class_of_one_pixel_is_trained_but_not_validated(data, irradiance):
    first = np.flatnonzero(data.class_index == 2)[0]
    mask = (data.class_index != 2) | (np.arange(len(data.class_index)) == first)
    small = TrainingSet(data.spectra[mask], data.class_index[mask], data.group[mask], data.unlabelled)
    model = train_land_cover(small, BANDS, irradiance, LEGEND, QUICK)
    assert any("road: too few" in warning for warning in model.summary.warnings)
    spectra, truth, _ = pixels(irradiance, 60, 12, flat=True)
    assert (model.predict(spectra, irradiance).class_id == np.array(LEGEND.ids)[truth]).mean() > 0.9


@pytest.mark.parametrize("name", ["p3vae", "gaussian-vae"])
def test_useless_unlabelled_pixels_change_nothing(data, irradiance, name):
    useless = np.stack([np.full(len(BANDS), np.nan), np.zeros(len(BANDS))]).astype(np.float32)
    more = replace(data, unlabelled=np.concatenate([useless, data.unlabelled, useless]))
    settings = TrainingSettings(model=name, epochs=1)
    models = [train_land_cover(some, BANDS, irradiance, LEGEND, settings) for some in (data, more)]
    assert models[0].digest == models[1].digest


def test_missing_class_is_refused(data, irradiance):
    mask = data.class_index != 1
    short = TrainingSet(data.spectra[mask], data.class_index[mask], data.group[mask], data.unlabelled)
    with pytest.raises(TrainingError, match="roof"):
        train_land_cover(short, BANDS, irradiance, LEGEND, QUICK)


def test_file_round_trip_and_card(model, irradiance, tmp_path):
    path = tmp_path / "model.p3vae"
    save_model(path, model)
    loaded = load_model(path)
    spectra = pixels(irradiance, 50, 11, flat=False)[0]
    np.testing.assert_array_equal(
        loaded.predict(spectra, irradiance).irradiance, model.predict(spectra, irradiance).irradiance
    )
    assert loaded.legend == model.legend
    assert loaded.settings == model.settings
    assert loaded.summary == model.summary
    kind, card = read_card(path)
    assert kind == "landcover"
    assert card["classes"]["names"] == ["grass", "roof", "road"]
    assert list(tmp_path.iterdir()) == [path]


def damage_truncate(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def damage_flip(raw: bytes) -> bytes:
    return raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:]


def damage_version(raw: bytes) -> bytes:
    return raw.replace(b'\\"format\\": 1', b'\\"format\\": 9')


def damage_card(raw: bytes) -> bytes:
    return raw.replace(b"grass", b"glass")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_truncate, "truncated"),
        (damage_flip, "hash"),
        (damage_version, "format 9"),
        (damage_card, "hash"),
        (lambda raw: b"\x80\x04" + raw, "pickle"),
        (lambda raw: b"hello", "not a model file"),
    ],
)
def test_damaged_files_are_refused(model, tmp_path, damage, message):
    path = tmp_path / "model.p3vae"
    save_model(path, model)
    raw = path.read_bytes()
    assert damage(raw) != raw
    path.write_bytes(damage(raw))
    with pytest.raises(ModelFormatError, match=message):
        load_model(path)


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(ModelFormatError, match="no such"):
        load_model(tmp_path / "none.p3vae")


def mixed_pixels(irradiance, count: int, seed: int):
    """Half of every pixel is its class, the other half a blend of what lies about, as in coarse pixels."""
    rng = np.random.default_rng(seed)
    about = np.random.default_rng(99).uniform(0.02, 0.6, (7, len(BANDS)))
    truth = rng.integers(0, 3, count)
    reflectance = 0.5 * materials()[truth] + 0.5 * rng.dirichlet(np.full(7, 0.7), count) @ about
    light = COS0 * irradiance.direct_ratio + irradiance.diffuse_ratio
    spectra = light * reflectance + 0.001 * rng.standard_normal((count, len(BANDS)))
    return spectra.astype(np.float32), truth


def test_covariance_is_learned_where_every_pixel_is_a_mixture(irradiance, tmp_path):
    spectra, truth = mixed_pixels(irradiance, 600, 5)
    data = TrainingSet(spectra, truth, np.arange(600) // 20 * 3 + truth, spectra[:0])
    model = train_land_cover(data, BANDS, irradiance, LEGEND, QUICK)
    test, answer = mixed_pixels(irradiance, 600, 6)
    found = model.predict(test, irradiance)
    assert np.mean(found.class_id == np.array(LEGEND.ids)[answer]) > 0.95
    assert np.mean(found.misfit > 1) < 0.03
    save_model(tmp_path / "mixed.p3vae", model)
    again = load_model(tmp_path / "mixed.p3vae").predict(test, irradiance)
    np.testing.assert_array_equal(again.confidence, found.confidence)
