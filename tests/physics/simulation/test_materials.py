"""Synthetic spectra have the features their substances are known for."""

import numpy as np
import pytest

from p3vae.physics.simulation import materials

NM = np.arange(400.0, 2501.0, 1.0)


def spectrum(name):
    return materials.all_materials()[materials.material_index(name)].reflectance(NM)


def at(values, nm):
    return values[int(nm - 400)]


def test_all_spectra_are_possible_reflectances():
    for material in materials.all_materials():
        assert 0.005 < material.reflectance(NM).min() <= material.reflectance(NM).max() < 0.8, material.name


def test_at_least_six_classes_with_distinct_colours():
    assert len(materials.LAND_COVER) >= 6
    assert len({cover.color for cover in materials.LAND_COVER}) == len(materials.LAND_COVER)
    assert materials.class_of_material().max() == len(materials.LAND_COVER)


@pytest.mark.parametrize("plant", ["grass", "tree"])
def test_green_plants_have_a_red_edge_a_green_peak_and_water_bands(plant):
    values = spectrum(plant)
    ndvi = (at(values, 800) - at(values, 670)) / (at(values, 800) + at(values, 670))
    assert ndvi > 0.7
    assert at(values, 550) > max(at(values, 480), at(values, 670))
    assert 690 < NM[200 + np.argmax(np.diff(values[200:450]))] < 750
    for water in (1450, 1940):
        assert at(values, water) < 0.6 * at(values, water - 180)


@pytest.mark.parametrize(
    ("name", "low", "centre", "high"),
    [
        ("light loam", 2140, 2205, 2260),
        ("limestone gravel", 2260, 2340, 2420),
        ("dry grass", 2020, 2100, 2190),
        ("aluminium", 650, 860, 1150),
    ],
)
def test_diagnostic_absorption_is_deepest_at_its_wavelength(name, low, centre, high):
    values = spectrum(name)
    hull = np.interp(NM, [low, high], [at(values, low), at(values, high)])
    inside = (low <= NM) & (high >= NM)
    deepest = NM[inside][np.argmin((values / hull)[inside])]
    assert deepest == pytest.approx(centre, abs=30)
    assert (values / hull)[inside].min() < 0.97


def test_tiles_are_red_and_asphalt_is_dark_and_flat():
    for tile in ("red tile", "orange tile", "weathered tile"):
        assert at(spectrum(tile), 650) > 2 * at(spectrum(tile), 460)
    asphalt = spectrum("fresh asphalt")
    assert asphalt.max() < 0.1
    assert asphalt.max() < 1.6 * asphalt.min()


@pytest.mark.parametrize(
    "substance",
    [
        *(materials.chlorophyll, materials.liquid_water, materials.iron_oxide),
        *(materials.clay, materials.carbonate, materials.cellulose),
    ],
)
def test_absorption_is_proportional_to_the_amount_of_a_substance(substance):
    """ln of reflectance, as Beer and Lambert have it."""
    depth = [
        -np.log(materials.Material("x", ((400, 1.0), (2500, 1.0)), substance(amount)).reflectance(NM))
        for amount in (0.5, 1.5)
    ]
    np.testing.assert_allclose(depth[1], 3.0 * depth[0], rtol=1e-9, atol=1e-12)
    assert depth[0].max() > 0.05
