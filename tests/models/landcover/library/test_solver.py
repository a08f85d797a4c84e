"""The exact posterior against brute force, and its invariants."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.optimize import nnls

from p3vae.models.landcover.library.decoder import Library, NoiseModel
from p3vae.models.landcover.library.solver import PosteriorSolver

BANDS = 12
WAVELENGTH = np.linspace(450.0, 2400.0, BANDS)
DIRECT = np.linspace(0.7, 1.1, BANDS)
DIFFUSE = np.linspace(0.4, 0.03, BANDS)


@pytest.fixture
def library() -> Library:
    rng = np.random.default_rng(0)
    return Library(
        (
            rng.uniform(0.05, 0.6, (2, BANDS)),
            rng.uniform(0.05, 0.6, (3, BANDS)),
            rng.uniform(0.05, 0.6, (1, BANDS)),
        ),
        np.full(BANDS, 0.3),
    )


def seen(library: Library, index: int, z: float, w: float, mixing: list[float]) -> np.ndarray:
    return (z * DIRECT + w * DIFFUSE) * (np.array(mixing) @ library.spectra[index])


def solver(library: Library, **noise: float) -> PosteriorSolver:
    return PosteriorSolver(library, NoiseModel(**noise), DIRECT, DIFFUSE, WAVELENGTH)


def test_finds_class_and_light_of_spectra_it_can_make(library):
    cases = [
        (0, 0.8, 0.9, [0.3, 0.7]),
        (1, 0.1, 0.6, [0.2, 0.5, 0.3]),
        (2, 0.5, 1.0, [1.0]),
        (1, 0.0, 0.5, [0, 1, 0]),
    ]
    spectra = np.stack([seen(library, *case) for case in cases])
    found = solver(library, floor=5e-4, relative=0.03, smooth=0.0).solve(torch.as_tensor(spectra).float())
    assert found.log_evidence.argmax(1).tolist() == [case[0] for case in cases]
    np.testing.assert_allclose(found.sun, [case[1] for case in cases], atol=0.03)
    np.testing.assert_allclose(found.sky, [case[2] for case in cases], atol=0.12)


def brute_force(
    library: Library, x: np.ndarray, floor: float, relative: float, level: float
) -> tuple[np.ndarray, float, float, float]:
    """p(y|x), mean and mean square of z, misfit of the best class.

    Profile over the mixing by NNLS on 2000 angles, priors as documented, integrated by summation; the noise
    is that of the nearest tabulated brightness.
    """
    norms = np.geomspace(0.03, 30.0, 11)
    norm = norms[np.abs(np.log(norms / np.linalg.norm(x))).argmin()]
    white = ((floor / norm) ** 2 + relative**2 / BANDS) * np.eye(BANDS)
    mean, square, mass = 0.0, 0.0, np.zeros(len(library.spectra))
    peak, misfit = np.zeros_like(mass), np.zeros_like(mass)
    for index, spectra in enumerate(library.spectra):
        for angle in np.radians(np.linspace(6.0, 90.0, 2001)):
            ratio = np.cos(angle) * DIRECT + np.sin(angle) * DIFFUSE
            colour = ratio / np.sqrt(np.mean(ratio**2))
            seen_scatter = 0.0 if library.scatter is None else np.outer(colour, colour) * library.scatter
            covariance = white + seen_scatter / norm
            whiten = np.linalg.inv(np.linalg.cholesky(covariance)) / np.linalg.norm(x)
            u, residual = nnls(whiten @ (ratio * spectra).T, whiten @ x)
            z, w = u.sum() * np.cos(angle), u.sum() * np.sin(angle)
            face = (whiten @ (ratio * spectra).T)[:, u > 0]
            doubt = np.linalg.inv(face.T @ face).sum() * np.cos(angle) ** 2
            prior = max(z - 1, 0) ** 2 / level**2 + (max(w - 1.05, 0) ** 2 + max(0.2 - w, 0) ** 2) / 0.1**2
            determinant = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(white)[1]
            density = np.exp(-0.5 * (residual**2 + prior + determinant) + np.log(u.sum()))
            mass[index] += density
            mean += density * z
            square += density * (z**2 + doubt)
            if density > peak[index]:
                peak[index], misfit[index] = density, residual**2 / BANDS
    return mass / mass.sum(), mean / mass.sum(), square / mass.sum(), float(misfit[mass.argmax()])


@pytest.mark.parametrize("light", [(0.55, 0.7), (0.02, 0.8)], ids=["sun", "shadow"])
def test_agrees_with_brute_force_on_a_dense_grid(library, light):
    rng = np.random.default_rng(1)
    x = seen(library, 1, *light, [0.4, 0.0, 0.6]) * (1 + 0.05 * rng.standard_normal(BANDS))
    probability, mean, square, _ = brute_force(library, x, 0.002, 0.05, 0.07)
    found = solver(library, floor=0.002, relative=0.05, smooth=0.0, level=0.07).solve(
        torch.as_tensor(x[None]).float()
    )
    np.testing.assert_allclose(found.log_evidence.softmax(1)[0], probability, atol=0.01)
    np.testing.assert_allclose(found.sun, [mean], atol=0.01)
    expected = np.sqrt(square - mean**2 + (0.07 * mean) ** 2)
    np.testing.assert_allclose(found.sun_std, [expected], rtol=0.05)


def test_two_spectra_of_nearly_one_shape_leave_the_amount_of_light_open():
    """A dark material in much light, or a bright one in little: the mixing is as uncertain as the light."""
    dark = np.random.default_rng(4).uniform(0.1, 0.3, BANDS)
    bright = 2 * dark * (1 + 0.08 * np.cos(WAVELENGTH / 150))
    library = Library((np.stack([dark, bright]),), np.full(BANDS, 0.3))
    x = seen(library, 0, 0.4, 0.6, [0.5, 0.5])
    _, mean, square, _ = brute_force(library, x, 0.001, 0.03, 0.01)
    found = solver(library, floor=0.001, relative=0.03, smooth=0.0, level=0.01).solve(
        torch.as_tensor(x[None]).float()
    )
    expected = np.sqrt(square - mean**2 + (0.01 * mean) ** 2)
    np.testing.assert_allclose(found.sun, [mean], atol=0.01)
    np.testing.assert_allclose(found.sun_std, [expected], rtol=0.05)


@pytest.mark.parametrize("light", [(0.55, 0.7), (0.02, 0.8), (0.0, 0.6)], ids=["sun", "edge", "shadow"])
def test_scattered_ground_agrees_with_brute_force(light):
    """Classes that are nearly alike, and ground between two of them: scatter decides, and its colour."""
    rng = np.random.default_rng(0)
    base = rng.uniform(0.2, 0.6, BANDS)
    spectra = tuple(base * (1 + 0.12 * rng.standard_normal((1, BANDS))) for _ in range(3))
    rough = 0.03 * np.random.default_rng(3).standard_normal((BANDS, 3))
    library = Library(spectra, np.full(BANDS, 0.3), rough @ rough.T)
    ground = (spectra[0][0] + spectra[1][0]) / 2 + rough @ [1, -1, 0.5]
    x = (light[0] * DIRECT + light[1] * DIFFUSE) * ground
    probability, mean, _, misfit = brute_force(library, x, 0.002, 0.05, 0.07)
    assert 0.1 < probability[0] < 0.9
    found = solver(library, floor=0.002, relative=0.05, smooth=0.0, level=0.07).solve(
        torch.as_tensor(x[None]).float()
    )
    np.testing.assert_allclose(found.log_evidence.softmax(1)[0], probability, atol=0.01)
    np.testing.assert_allclose(found.sun, [mean], atol=0.01)
    np.testing.assert_allclose(found.misfit, [misfit], rtol=0.02)


def test_the_directions_of_scatter_are_as_good_as_all():
    """Scatter of a few directions, each of which looks another way in every light, among 200 bands."""
    bands, rng = 200, np.random.default_rng(5)
    wave = np.linspace(450.0, 2400.0, bands)
    light = np.linspace(0.7, 1.1, bands), np.linspace(0.4, 0.03, bands)
    spectra = tuple(0.3 + 0.1 * np.sin(wave / period)[None] for period in (150.0, 160.0, 250.0))
    directions = 0.02 * np.stack([np.cos(wave / period) for period in (90.0, 170.0, 400.0)])
    library = Library(spectra, np.full(bands, 0.3), directions.T @ directions)
    ground = np.concatenate([each + rng.standard_normal((100, 3)) @ directions for each in spectra])
    z, w = rng.uniform(0.0, 0.9, (300, 1)), rng.uniform(0.4, 1.0, (300, 1))
    seen = (z * light[0] + w * light[1]) * ground + 0.002 * rng.standard_normal((300, bands))

    noise = NoiseModel(floor=0.002, relative=0.0, smooth=0.0)
    few, whole = (
        PosteriorSolver(one, noise, *light, wave).solve(torch.as_tensor(seen).float())
        for one in (replace(library, directions=10), library)
    )
    assert not torch.equal(few.misfit, whole.misfit)
    np.testing.assert_allclose(few.log_evidence.softmax(1), whole.log_evidence.softmax(1), atol=0.01)
    np.testing.assert_allclose(few.sun, whole.sun, atol=0.003)
    np.testing.assert_allclose(few.misfit, whole.misfit, rtol=0.03)  # large squares in single precision
    assert (few.log_evidence.argmax(1) == torch.arange(3).repeat_interleave(100)).float().mean() > 0.9


def test_batches_and_order_do_not_matter(library):
    rng = np.random.default_rng(2)
    spectra = torch.as_tensor(rng.uniform(0.01, 0.6, (400, BANDS))).float()
    whole = solver(library).solve(spectra)
    order = torch.as_tensor(rng.permutation(400))
    pieces = [solver(library).solve(part) for part in spectra[order].split(37)]
    for name in ("sun", "sun_std", "sky"):
        parts = torch.cat([getattr(piece, name) for piece in pieces])
        np.testing.assert_allclose(parts, getattr(whole, name)[order], atol=1e-6)
    probability = torch.cat([piece.log_evidence for piece in pieces]).softmax(1)
    np.testing.assert_allclose(probability, whole.log_evidence.softmax(1)[order], atol=1e-6)


def test_threads_do_not_matter(library):
    spectra = torch.as_tensor(np.random.default_rng(3).uniform(0.01, 0.6, (20_000, BANDS))).float()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = solver(library).solve(spectra)
        torch.set_num_threads(2)
        two = solver(library).solve(spectra)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_allclose(one.sun, two.sun, atol=1e-6)


def test_forgiving_noise_is_less_sure(library):
    spectra = torch.as_tensor(np.random.default_rng(4).uniform(0.05, 0.5, (50, BANDS))).float()
    strict = solver(library, smooth=0.0).solve(spectra).misfit
    forgiving = solver(library, smooth=0.1, sky=0.2, reflected=0.1).solve(spectra).misfit
    assert (forgiving < strict).float().mean() > 0.95


def test_direct_light_never_exceeds_full_sun(library):
    """A material brighter than the library's is no reason for more than all of the sun."""
    bright = 1.6 * seen(library, 2, 1.0, 1.0, [1.0])
    found = solver(library).solve(torch.as_tensor(bright[None]).float())
    assert 0.9 < float(found.sun[0]) <= 1.0


@pytest.mark.parametrize("light", [(0.0, 0.5), (0.004, 0.3), (0.03, 0.6), (0.8, 0.9)], ids=str)
def test_sharp_posteriors_are_integrated_as_well(light):
    """Little noise, strong sun and weak sky: the light is known to a fraction of a degree of θ."""
    bands = 80
    wave = np.linspace(450.0, 2400.0, bands)
    direct, diffuse = 1.1 * np.exp(-150 / wave), 0.9 * np.exp(-wave / 250)
    road = 0.1 + 0.05 * wave / 2400
    classes = [road, 1.7 * road * (1 + 0.011 * np.sin(wave / 130)), 0.3 + 0 * wave]
    noise = NoiseModel(floor=1e-4, relative=0.02, smooth=0.0)
    tested = PosteriorSolver(
        Library(tuple(spectrum[None] for spectrum in classes), road), noise, direct, diffuse, wave
    )
    truth = road * (1 + 0.006 * np.sin(wave / 130))
    x = (light[0] * direct + light[1] * diffuse) * truth
    norms = np.geomspace(0.03, 30.0, 11)
    norm = norms[np.abs(np.log(norms / np.linalg.norm(x))).argmin()]
    variance = (noise.floor / norm) ** 2 + noise.relative**2 / bands
    # Fine where the sky outshines the sun, by the same measure dθ.
    angles = np.pi / 2 - np.geomspace(1e-6, np.radians(84.0), 60_001)
    width = np.abs(np.gradient(angles))
    mass, mean = [], []
    for spectrum in classes:
        lit = (np.cos(angles)[:, None] * direct + np.sin(angles)[:, None] * diffuse) * spectrum
        u = (lit @ x) / np.square(lit).sum(1)
        chi = np.square(x - u[:, None] * lit).sum(1) / (x @ x) / variance
        z, w = u * np.cos(angles), u * np.sin(angles)
        prior = np.square(np.maximum(z - 1, 0) / noise.level)
        prior += np.square(np.maximum(w - 1.05, 0) / 0.1) + np.square(np.maximum(0.2 - w, 0) / 0.1)
        density = np.exp(-0.5 * (chi + prior)) * u * width
        mass.append(density.sum())
        mean.append((density * z).sum())
    found = tested.solve(torch.as_tensor(x[None]).float())
    probability = np.array(mass) / np.sum(mass)
    assert 0.02 < probability[0] < 0.98
    # Single precision leaves a few hundredths of log evidence, sums of 1e5 that cancel.
    np.testing.assert_allclose(found.log_evidence.softmax(1)[0], probability, atol=0.06)
    np.testing.assert_allclose(found.sun[0], np.sum(mean) / np.sum(mass), atol=0.02)


def test_no_class_that_matters_beside_the_best_is_left_out():
    """A bright pixel with the shape of a dim class: that one fits best but would take a second sun, and the
    likelier ones fit badly, so that they are hot and none of them is hopeless."""
    wave = np.linspace(450.0, 2400.0, 8)
    direct, diffuse = 1.1 * np.exp(-150 / wave), 0.9 * np.exp(-wave / 250)
    classes = [
        np.full(8, 0.1),
        0.3 * (1 + 0.2 * np.sin(wave / 200)),
        0.3 * (1 + 0.22 * np.sin(wave / 200 + 0.6)),
    ]
    noise = NoiseModel(floor=0.001, relative=0.03, smooth=0.0)
    tested = PosteriorSolver(
        Library(tuple(spectrum[None] for spectrum in classes), classes[0]), noise, direct, diffuse, wave
    )
    x = 2.0 * 0.9 * (direct + diffuse) * 0.1
    norms = np.geomspace(0.03, 30.0, 11)
    norm = norms[np.abs(np.log(norms / np.linalg.norm(x))).argmin()]
    variance = ((noise.floor / norm) ** 2 + noise.relative**2 / len(x)) * (x @ x)
    angles = np.linspace(np.radians(6.0), np.pi / 2, 100_001)
    log_mass, misfit = [], []
    for spectrum in classes:
        lit = (np.cos(angles)[:, None] * direct + np.sin(angles)[:, None] * diffuse) * spectrum
        u = (lit @ x) / np.square(lit).sum(1)
        chi = np.square(x - u[:, None] * lit).sum(1) / variance
        z, w = u * np.cos(angles), u * np.sin(angles)
        prior = np.square(np.maximum(z - 1, 0) / noise.level)
        prior += np.square(np.maximum(w - 1.05, 0) / 0.1) + np.square(np.maximum(0.2 - w, 0) / 0.1)
        log_density = -0.5 * (chi + prior) + np.log(u)
        log_mass.append(np.logaddexp.reduce(log_density))
        misfit.append(chi[log_density.argmax()] / len(x))
    heat = max(1.0, misfit[int(np.argmax(log_mass))])
    assert heat > 3
    expected = torch.softmax(torch.tensor(log_mass) / heat, 0)
    assert expected.min() > 0.05
    found = tested.solve(torch.as_tensor(x[None]).float()).log_evidence.softmax(1)[0]
    np.testing.assert_allclose(found, expected, atol=0.04)


@pytest.mark.parametrize("temperature", [1.0, 4.0, 20.0])
@pytest.mark.parametrize("noise", [(1e-4, 0.02), (1e-3, 0.1)], ids=["sharp", "broad"])
@pytest.mark.parametrize("light", [(0.0, 0.5), (0.004, 0.3), (0.03, 0.6), (0.2, 0.7), (0.8, 0.9)], ids=str)
@pytest.mark.parametrize("deviation", [0.006, 0.08])
def test_light_and_its_std_are_those_of_the_tempered_posterior(light, noise, temperature, deviation):
    """However narrow the peak and wherever it is cut, against 200,000 angles in double precision.

    A spectrum that departs by more than the noise has as much more noise, so that it is hotter.
    """
    bands = 80
    wave = np.linspace(450.0, 2400.0, bands)
    direct, diffuse = 1.1 * np.exp(-150 / wave), 0.9 * np.exp(-wave / 250)
    road = 0.1 + 0.05 * wave / 2400
    floor, relative = noise
    # A well-known level, which would hide the rest of the uncertainty.
    model = NoiseModel(floor=floor, relative=relative, smooth=0.0, level=1e-3, temperature=temperature)
    tested = PosteriorSolver(Library((road[None],), road), model, direct, diffuse, wave)
    x = (light[0] * direct + light[1] * diffuse) * road * (1 + deviation * np.sin(wave / 130))
    norms = np.geomspace(0.03, 30.0, 11)
    norm = norms[np.abs(np.log(norms / np.linalg.norm(x))).argmin()]
    variance = ((floor / norm) ** 2 + relative**2 / bands) * (x @ x)
    angles = np.pi / 2 - np.concatenate([[0], np.geomspace(1e-6, np.radians(84.0), 200_000)])
    cos, sin = np.cos(angles), np.sin(angles)
    sun, sky = direct * road, diffuse * road
    strength = cos**2 * (sun @ sun) + 2 * cos * sin * (sun @ sky) + sin**2 * (sky @ sky)
    u = (cos * (sun @ x) + sin * (sky @ x)) / strength
    z, w = u * cos, u * sin
    prior = np.square(np.maximum(z - 1, 0) / model.level)
    prior += np.square(np.maximum(w - 1.05, 0) / 0.1) + np.square(np.maximum(0.2 - w, 0) / 0.1)
    log_density = 0.5 * (u**2 * strength / variance - prior) + np.log(u)
    misfit = (x @ x - (u**2 * strength)[log_density.argmax()]) / variance / bands
    heat = temperature * max(1.0, misfit)
    weight = np.exp((log_density - log_density.max()) / heat) * np.abs(np.gradient(angles))
    weight /= weight.sum()
    mean = weight @ z
    # The angle, the amount of light at that angle, and the level of the material.
    spread = weight @ (z - mean) ** 2 + heat * weight @ (cos**2 * variance / strength)
    std = np.sqrt(spread + (model.level * mean) ** 2 + 1e-8)
    found = tested.solve(torch.as_tensor(x[None]).float())
    np.testing.assert_allclose(found.sun[0], mean, atol=0.15 * std)
    np.testing.assert_allclose(found.sun_std[0], std, rtol=0.08)


def test_the_order_of_memory_does_not_matter(library):
    """Files hold spectrum after spectrum, or band after band."""
    spectra = torch.as_tensor(np.random.default_rng(6).uniform(0.01, 0.6, (400, BANDS))).float()
    by_pixel, by_band = (solver(library).solve(some) for some in (spectra, spectra.T.contiguous().T))
    for name in ("sun", "sun_std", "sky"):
        np.testing.assert_allclose(getattr(by_pixel, name), getattr(by_band, name), atol=1e-3)
    np.testing.assert_allclose(by_pixel.log_evidence.softmax(1), by_band.log_evidence.softmax(1), atol=1e-3)
