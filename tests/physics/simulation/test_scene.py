"""Simulated scenes obey the equations they claim, recomputed here from their own truth."""

from dataclasses import replace

import numpy as np
import pytest

from p3vae.physics.illumination import clear_sky_irradiance
from p3vae.physics.simulation.materials import LAND_COVER
from p3vae.physics.simulation.plumes import SimulatedPlume
from p3vae.physics.simulation.scene import SimulationSettings, simulate_radiance, simulate_reflectance
from p3vae.physics.spectral_response import Bands

BANDS = Bands.from_centres(np.array([450.0, 550.0, 660.0, 860.0, 1050.0, 1240.0, 1650.0, 2200.0, 2350.0]))
CLEAN = SimulationSettings(rows=64, cols=80, seed=3, noise=0.0)


def light(scene, sun_zenith):
    """(z I_dir/cosΘ0 + w I_dif) / (I_dir + I_dif), with w = 0.85 V + 0.15 z/cosΘ0."""
    irradiance = clear_sky_irradiance(BANDS, sun_zenith)
    cosine = np.cos(np.radians(sun_zenith))
    z, view = scene.direct_light[..., None].astype(float), scene.sky_view[..., None].astype(float)
    diffuse = 0.85 * view + 0.15 * z / cosine
    total = irradiance.direct + irradiance.diffuse
    return (z * irradiance.direct / cosine + diffuse * irradiance.diffuse) / total


def test_under_another_sun_only_the_light_changes():
    high, low = (
        replace(CLEAN, sun_zenith_deg=25.0),
        replace(CLEAN, sun_zenith_deg=60.0, sun_azimuth_deg=250.0),
    )
    one, other = simulate_reflectance(BANDS, high), simulate_reflectance(BANDS, low)
    np.testing.assert_array_equal(one.class_id, other.class_id)
    expected = light(one, 25.0) / light(other, 60.0)
    np.testing.assert_allclose(one.cube / other.cube, expected, rtol=2e-4)


def test_where_light_is_that_of_flat_ground_reflectance_is_that_of_the_material():
    """Asphalt is a mix of its two synthetic spectra, within three times its brightness spread of 8 %."""
    scene = simulate_reflectance(BANDS, CLEAN)
    flat = np.all(np.abs(light(scene, CLEAN.sun_zenith_deg) - 1) < 0.03, axis=-1)
    spectra = scene.cube[flat & (scene.class_id == 1) & (scene.purity > 0.999)]
    fresh, worn = (asphalt.reflectance(BANDS.wavelength_nm) for asphalt in LAND_COVER[0].materials)
    assert len(spectra) > 30
    assert np.all(spectra > fresh * 0.97 * np.exp(-3 * 0.08))
    assert np.all(spectra < worn * 1.03 * np.exp(3 * 0.08))


def test_shade_is_dark_and_blue():
    scene = simulate_reflectance(BANDS, CLEAN)
    asphalt = (scene.class_id == 1) & (scene.purity > 0.95)
    lit = scene.cube[asphalt & (scene.lit_fraction == 1)].mean(axis=0)
    shade = scene.cube[asphalt & (scene.lit_fraction == 0)].mean(axis=0)
    assert np.all(shade < 0.5 * lit)
    assert shade[0] / lit[0] > 3 * shade[-1] / lit[-1]


def test_truth_maps_are_within_their_ranges():
    scene = simulate_reflectance(BANDS, CLEAN)
    for share in (scene.direct_light, scene.sky_view, scene.lit_fraction, scene.purity):
        assert 0.0 <= share.min() <= share.max() <= 1.0 + 1e-6
    assert np.all(scene.direct_light <= scene.lit_fraction + 1e-6)
    assert set(np.unique(scene.class_id)) <= set(range(1, len(LAND_COVER) + 1))
    assert np.any((scene.lit_fraction > 0.1) & (scene.lit_fraction < 0.9))


@pytest.mark.parametrize("seed", range(4))
def test_every_class_occurs_in_a_scene_of_the_default_size(seed):
    scene = simulate_reflectance(BANDS.select([0, 3]), SimulationSettings(seed=seed))
    counts = np.bincount(scene.class_id.ravel(), minlength=len(LAND_COVER) + 1)[1:]
    assert counts.min() > 200


def test_equal_settings_give_equal_bytes_and_another_seed_another_town():
    settings = replace(CLEAN, noise=0.01)
    one, same = simulate_reflectance(BANDS, settings), simulate_reflectance(BANDS, settings)
    assert one.cube.tobytes() == same.cube.tobytes()
    assert not np.array_equal(one.class_id, simulate_reflectance(BANDS, replace(settings, seed=4)).class_id)


def test_noise_has_the_stated_size():
    """Relative noise is the stated one where irradiance is at its median, so here within a factor of two."""
    clean, noisy = simulate_reflectance(BANDS, CLEAN), simulate_reflectance(BANDS, replace(CLEAN, noise=0.01))
    relative = (noisy.cube - clean.cube).std(axis=(0, 1)) / clean.cube.mean(axis=(0, 1))
    assert np.median(relative) == pytest.approx(0.01, rel=0.1)
    assert relative[-1] > relative[1]


def test_radiance_is_reflectance_times_irradiance_over_pi_and_the_way_up():
    reflectance, radiance = simulate_reflectance(BANDS, CLEAN), simulate_radiance(BANDS, CLEAN)
    factor = radiance.cube / reflectance.cube
    irradiance = clear_sky_irradiance(BANDS, CLEAN.sun_zenith_deg).total
    upward = factor.mean(axis=(0, 1)) * np.pi / irradiance
    np.testing.assert_allclose(factor, np.broadcast_to(factor[0, 0], factor.shape), rtol=1e-4)
    assert np.all((upward > 0.6) & (upward < 1.0))


def test_plume_obeys_beer_lambert_along_both_paths():
    absorption = np.where(BANDS.wavelength_nm > 2300, 7.4e-6, 0.0)

    def transmittance(path_ppm_m, column):
        assert path_ppm_m.shape == column.shape
        return np.exp(-path_ppm_m[:, None] * absorption)

    settings = replace(CLEAN, plume_count=2, plume_peak_ppm_m=2e4, sun_zenith_deg=60.0, view_zenith_deg=10.0)
    clear = simulate_radiance(BANDS, replace(settings, plume_count=0))
    gas = simulate_radiance(BANDS, settings, transmittance)
    assert gas.ppm_m.max() > 1e4
    np.testing.assert_array_equal(gas.cube[..., :-1], clear.cube[..., :-1])
    air_mass = 2.0 + 1 / np.cos(np.radians(10.0))
    depth = -np.log(gas.cube[..., -1] / clear.cube[..., -1])
    np.testing.assert_allclose(depth, 7.4e-6 * gas.ppm_m * air_mass, atol=1e-5)


def test_plume_mass_is_the_sum_over_pixels():
    """1 ppm m weighs 7.16e-7 kg m-2 (16.04 g/mol over 22.414 l/mol)."""
    plume = SimulatedPlume(
        row=100, col=60, wind_azimuth_deg=70.0, peak_ppm_m=5000.0, width=6.0, length=110.0, spread=0.1
    )
    pixels = plume.enhancement(200, 220).astype(float)
    mass = pixels.sum() * 30.0**2 * 1e-6 * 0.01604 / 0.022414
    assert plume.mass_kg(30.0) == pytest.approx(mass, rel=0.01)


def test_plume_goes_downwind_and_widens():
    field = SimulatedPlume(
        row=20, col=10, wind_azimuth_deg=90.0, peak_ppm_m=1e4, width=1.5, length=40
    ).enhancement(41, 60)
    assert field[:, :5].max() < 0.02 * field.max()
    assert field[:, 45:].max() < 0.2 * field.max()
    near, far = field[:, 12], field[:, 35]
    assert near.argmax() in (19, 20)
    assert near.max() > far.max() > 0
    assert np.count_nonzero(far > far.max() / 2) > np.count_nonzero(near > near.max() / 2)


def test_smile_shifts_the_wavelengths_of_each_column():
    """A column seen 4 nm off is the same column of a scene whose bands all lie 4 nm off."""
    settings = replace(CLEAN, smile_nm=3.0)
    smiling = simulate_radiance(BANDS, settings)
    shift = settings.column_shift_nm
    assert shift.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.ptp(shift) > 3.0
    for column in (0, 50, 79):
        moved = simulate_radiance(replace(BANDS, wavelength_nm=BANDS.wavelength_nm + shift[column]), CLEAN)
        np.testing.assert_allclose(smiling.cube[:, column], moved.cube[:, column], rtol=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"rows": 4},
        {"noise": -1.0},
        {"sun_zenith_deg": 85.0},
        {"pixel_size_m": 0.0},
        {"plume_peak_ppm_m": -1.0},
    ],
)
def test_impossible_settings_are_refused(wrong):
    with pytest.raises(ValueError, match=r"must|needs"):
        SimulationSettings(**wrong)


def test_a_plume_without_absorption_is_refused():
    with pytest.raises(ValueError, match="transmittance"):
        simulate_radiance(BANDS, replace(CLEAN, plume_count=1, plume_peak_ppm_m=1e4))
