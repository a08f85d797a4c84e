"""p3VAE for methane on synthetic ground."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from p3vae.models.checkpoint import read_model_file, write_model_file
from p3vae.models.methane.background.noise import SensorNoise
from p3vae.models.methane.background.screening import background_mask
from p3vae.models.methane.model import MethaneP3VAE, pixels_needed
from p3vae.models.methane.types import MethaneSettings, PlumeOptics
from p3vae.paper.methane import PaperSettings, fit_paper
from p3vae.physics.methane import MethaneAbsorption, air_mass_factor
from p3vae.physics.spectral_response import Bands

BANDS = Bands.from_centres(
    np.concatenate([np.arange(600.0, 1500.0, 60.0), np.arange(2000.0, 2451.0, 12.0)]), np.full(53, 11.0)
)
SETTINGS = MethaneSettings(components=2, rounds=3, nodes=40, max_ppm_m=4e4)
TABLE = MethaneAbsorption.load()


def optics(centres: np.ndarray | None = None) -> PlumeOptics:
    curves = TABLE.band_transmittance(BANDS, centres_nm=centres)
    return PlumeOptics(curves, air_mass_factor(30.0), torch.as_tensor(BANDS.wavelength_nm), 4e4)


def noise() -> SensorNoise:
    level = torch.full((len(BANDS),), 5.0, dtype=torch.float64)
    return SensorNoise.from_snr(level, torch.full_like(level, 200.0))


def scene(pixels: int, seed: int, ppm_m: torch.Tensor | None = None, columns=None, view=None) -> torch.Tensor:
    """Two kinds of ground whose continuum bands predict much of the absorbing ones, seen with noise."""
    g = torch.Generator().manual_seed(seed)
    x = torch.as_tensor((BANDS.wavelength_nm - 1500.0) / 1000.0)
    kind = torch.randint(2, (pixels, 1), generator=g)
    slope = torch.where(kind == 0, -0.4, 0.3) + 0.05 * torch.randn(pixels, 1, generator=g)
    bend = 0.1 * torch.randn(pixels, 1, generator=g)
    bright = torch.exp(0.4 * torch.randn(pixels, 1, generator=g))
    clean = 5.0 * bright * (1.0 + slope * x + bend * x**2)
    if ppm_m is not None:
        clean = clean * (view or optics()).transmittance(ppm_m, columns)
    return clean + torch.randn(clean.shape, generator=g, dtype=torch.float64) * noise().variance(clean).sqrt()


@pytest.fixture(scope="module")
def model() -> MethaneP3VAE:
    truth = torch.linspace(0, 4e4, 600, dtype=torch.float64)
    return MethaneP3VAE.fit(
        scene(1500, 0), optics(), settings=SETTINGS, unlabelled=scene(600, 1, truth), noise=noise()
    )


def test_estimates_are_close_and_their_std_is_honest(model):
    truth = torch.rand(2000, generator=torch.Generator().manual_seed(7), dtype=torch.float64) * 4e4
    found = model.invert(scene(2000, 2, truth))
    error = found.ppm_m.double() - truth
    # wider than needed on ground that is Gaussian indeed: intervals are made for ground that is not
    assert 0.9 < (error.abs() < 1.96 * found.std).double().mean().item() < 0.995
    assert error.abs().mean() < 600
    assert abs(error.mean().item()) < 150
    assert np.polyfit(truth, found.ppm_m, 1)[0] == pytest.approx(1.0, abs=0.02)


def test_strong_plumes_are_not_underestimated_as_by_a_constant_coefficient(model):
    truth = torch.full((500,), 3.5e4, dtype=torch.float64)
    assert model.invert(scene(500, 3, truth)).ppm_m.mean().item() == pytest.approx(3.5e4, rel=0.02)


def test_a_negative_lower_bound_makes_plume_free_ground_average_to_zero():
    settings = MethaneSettings(components=2, rounds=2, nodes=48, min_ppm_m=-8e3, max_ppm_m=4e4)
    fitted = MethaneP3VAE.fit(scene(1500, 0), optics(), settings=settings, noise=noise())
    found = fitted.invert(scene(1500, 5))
    assert abs(found.ppm_m.mean().item()) < 4 * found.std.mean().item() / np.sqrt(1500)


def test_every_seed_trains():
    truth = torch.linspace(1e4, 4e4, 300, dtype=torch.float64)
    for seed in range(3):
        settings = MethaneSettings(components=3, rounds=1, nodes=32, max_ppm_m=4e4, seed=seed)
        fitted = MethaneP3VAE.fit(scene(900, 0), optics(), settings=settings, noise=noise())
        assert (fitted.invert(scene(300, 1, truth)).ppm_m - truth).abs().mean() < 1000


def test_a_saved_model_gives_the_same_estimates(model, tmp_path):
    write_model_file(tmp_path / "m.p3vae", model.to_file())
    again = MethaneP3VAE.from_file(read_model_file(tmp_path / "m.p3vae", kind="methane"), optics())
    x = scene(50, 9, torch.full((50,), 1e4, dtype=torch.float64))
    assert again.invert(x).ppm_m.numpy() == pytest.approx(model.invert(x).ppm_m.numpy(), rel=1e-3)


def test_a_model_of_other_bands_is_refused(model):
    other = PlumeOptics(model.optics.curves, 2.0, model.optics.wavelength_nm + 5.0, 4e4)
    with pytest.raises(ValueError, match="other bands"):
        MethaneP3VAE.from_file(model.to_file(), other)


TWO_FEATURE_SETS = np.concatenate([np.arange(600.0, 1400.0, 60.0), np.arange(1950.0, 2451.0, 10.0)])


def many_kinds(wavelength_nm: np.ndarray, pixels: int, seed: int, ppm_m: torch.Tensor) -> torch.Tensor:
    """Ground of three kinds that differ near 2300 nm and show it below 1400 nm only."""
    g = torch.Generator().manual_seed(seed)
    nm = torch.as_tensor(wavelength_nm)
    kind = torch.randint(3, (pixels, 1), generator=g).double() - 1.0
    own = 0.1 * torch.randn(pixels, 1, generator=g, dtype=torch.float64)
    seen = torch.where(nm < 1400.0, 0.3 * kind, 0.0) + 0.1 * kind * torch.exp(-(((nm - 2320.0) / 60.0) ** 2))
    clean = (
        5.0 * (1.0 + own * (nm - 2000.0) / 1000.0 + seen) * band_optics(wavelength_nm).transmittance(ppm_m)
    )
    spread = (0.005 * torch.randn(clean.shape, generator=g, dtype=torch.float64)) * clean
    return clean + spread


def band_optics(wavelength_nm: np.ndarray) -> PlumeOptics:
    curves = TABLE.band_transmittance(Bands.from_centres(wavelength_nm, np.full(len(wavelength_nm), 11.0)))
    return PlumeOptics(curves, air_mass_factor(30.0), torch.as_tensor(wavelength_nm), 4e4)


def test_visible_bands_help_where_they_tell_kinds_of_ground_apart(tmp_path):
    truth = torch.rand(600, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 4e4
    settings = MethaneSettings(components=3, rounds=2, nodes=32, max_ppm_m=4e4)
    errors = []
    for wavelength in (TWO_FEATURE_SETS, TWO_FEATURE_SETS[TWO_FEATURE_SETS > 1400.0]):
        free = many_kinds(wavelength, 1500, 0, torch.zeros(1500, dtype=torch.float64))
        fitted = MethaneP3VAE.fit(free, band_optics(wavelength), settings=settings)
        test = many_kinds(wavelength, 600, 2, truth)
        errors.append((fitted.invert(test).ppm_m - truth).abs().mean().item())
        write_model_file(tmp_path / "m.p3vae", fitted.to_file())
        stored = read_model_file(tmp_path / "m.p3vae", kind="methane")
        again = MethaneP3VAE.from_file(stored, band_optics(wavelength)).invert(test)
        assert again.ppm_m.numpy() == pytest.approx(fitted.invert(test).ppm_m.numpy(), rel=1e-3, abs=1.0)
    assert errors[0] < 0.7 * errors[1]


def test_progress_counts_all_feature_sets_to_the_end():
    reported: list[tuple[int, int]] = []
    free = many_kinds(TWO_FEATURE_SETS, 900, 0, torch.zeros(900, dtype=torch.float64))
    settings = MethaneSettings(components=2, rounds=1, nodes=16, max_ppm_m=4e4)
    MethaneP3VAE.fit(
        free,
        band_optics(TWO_FEATURE_SETS),
        settings=settings,
        progress=lambda done, all_: reported.append((done, all_)),
    )
    assert [done for done, _ in reported] == list(range(1, reported[-1][1] + 1))
    assert len({total for _, total in reported}) == 1


def test_the_smile_matters_and_is_corrected():
    columns = torch.arange(64).repeat_interleave(20)
    centres = BANDS.wavelength_nm + np.linspace(-4.0, 4.0, 64)[:, None]
    truth = torch.full((len(columns),), 2e4, dtype=torch.float64)
    aware = MethaneP3VAE.fit(scene(1500, 0), optics(centres), settings=SETTINGS, noise=noise())
    naive = MethaneP3VAE.fit(scene(1500, 0), optics(), settings=SETTINGS, noise=noise())
    seen = scene(len(columns), 4, truth, columns, optics(centres))
    aware_error = (aware.invert(seen, columns).ppm_m - truth).abs().mean()
    naive_error = (naive.invert(seen).ppm_m - truth).abs().mean()
    assert aware_error < 0.7 * naive_error
    with pytest.raises(ValueError, match="detector columns"):
        aware.invert(seen)


def test_too_few_pixels_say_how_many_are_needed():
    with pytest.raises(ValueError, match=str(pixels_needed(optics()))):
        MethaneP3VAE.fit(scene(100, 0), optics(), settings=SETTINGS, noise=noise())


def test_noise_of_a_band_without_light_is_no_less_than_nothing():
    dark = scene(3000, 0)
    dark[:, 5] = dark[:, 5] - dark[:, 5].mean() - 0.01
    for level in (0.0, 0.1, 5.0):
        variance = SensorNoise.estimate(dark).variance(torch.full((53,), level, dtype=torch.float64))
        assert torch.isfinite(variance).all() and (variance > 0).all()


def test_noise_is_estimated_from_the_scene():
    level = torch.full((53,), 5.0, dtype=torch.float64)
    estimated = SensorNoise.estimate(scene(3000, 0)).variance(level)
    assert (estimated / noise().variance(level)).median().item() == pytest.approx(1.0, abs=0.25)


@pytest.fixture(scope="module")
def under_plume() -> torch.Tensor:
    truth = torch.rand(600, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4e4
    return scene(600, 1, truth)


def test_published_model_learns_and_stays_within_its_range(under_plume):
    radiance, losses = under_plume, list[float]()
    truth = torch.rand(600, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 4e4
    for epochs in (1, 60):
        settings = PaperSettings(epochs=epochs, batch=128, max_ppm_m=4e4)
        model = fit_paper(scene(600, 0), radiance, optics(), settings)
        found = model.invert(radiance)
        assert ((found.ppm_m >= 0) & (found.ppm_m <= 4e4)).all()
        assert torch.isfinite(found.std).all()
        left = (found.std / (4e4 / np.sqrt(12.0))) ** 2  # of the variance of a flat prior
        torch.testing.assert_close(found.sensitivity, (1.0 - left).clamp(min=0.0), rtol=1e-4, atol=1e-4)
        losses.append(model.under_plume_loss(model.scale(radiance), kl_weight=0.0).item())
    assert losses[1] < 0.05 * losses[0]
    assert np.corrcoef(found.ppm_m, truth)[0, 1] > 0.3, "it is slow to learn, but it does"


def test_plumes_teach_the_published_encoders_and_not_its_ground(under_plume):
    model = fit_paper(scene(600, 0), under_plume, optics(), PaperSettings(epochs=1, batch=128))
    model.zero_grad()
    model.under_plume_loss(model.scale(under_plume), kl_weight=1e-4).backward()
    assert all(weights.grad is None for weights in model.decode_ground.parameters())
    for encoder in (model.encode_ground, model.encode_plume):
        assert all(weights.grad.abs().sum() > 0 for weights in encoder.parameters())
    model.plume_free_loss(model.scale(scene(600, 0)), kl_weight=1e-4).backward()
    assert all(weights.grad.abs().sum() > 0 for weights in model.decode_ground.parameters())


def test_plume_pixels_do_not_enter_the_background():
    plume = torch.zeros(3000, dtype=torch.float64)
    plume[:150] = 2e4
    keep = background_mask(scene(3000, 0, plume), optics())
    assert keep[:150].double().mean() < 0.05
    assert keep[150:].double().mean() > 0.97


def test_deep_shadow_is_uncertain_rather_than_wrong(model):
    """Ground fifty times darker than what was learned from: noise rules, and the std says so."""
    truth = torch.full((800,), 5e3, dtype=torch.float64)
    g = torch.Generator().manual_seed(3)
    x = torch.as_tensor((BANDS.wavelength_nm - 1500.0) / 1000.0)
    clean = 5.0 / 50.0 * (1.0 - 0.4 * x)[None] * optics().transmittance(truth)
    dark = clean + torch.randn(clean.shape, generator=g, dtype=torch.float64) * noise().variance(clean).sqrt()
    found = model.invert(dark)
    assert ((found.ppm_m - truth).abs() < 1.96 * found.std).double().mean() > 0.85
