"""The exact posterior against other ways to compute the same numbers."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from p3vae.cli.labels import draw_samples, read_labels
from p3vae.cli.scenes.opening import open_scene
from p3vae.cli.scenes.settings import SceneSettings
from p3vae.models.landcover.library.classifier import Classifier
from p3vae.models.landcover.library.decoder import LightPrior, SpectralLibrary
from p3vae.models.landcover.library.estimator import LibraryEstimator
from p3vae.models.landcover.library.known_light import KnownLight, interpolated
from p3vae.models.landcover.library.mixture import Mixture
from p3vae.models.landcover.library.solver import PosteriorSolver
from p3vae.models.landcover.types import TrainingSet
from p3vae.physics.illumination import SpectralIrradiance

SAMPLES = Path(__file__).parents[4] / "sample_data"
BANDS, CLASSES = 12, 3
TAU = 0.07
PRIOR = LightPrior(
    np.array([[0.8, 1.0], [0.1, 0.6]]), np.array([[0.05, 0.04], [0.1, 0.15]]), np.array([0.7, 0.3]), TAU
)


@pytest.fixture(scope="module")
def library() -> SpectralLibrary:
    rng = np.random.default_rng(0)
    return SpectralLibrary(
        rng.uniform(0.1, 0.5, (CLASSES, BANDS)),
        0.02 * rng.standard_normal((CLASSES, 2, BANDS)),
        0.01 * rng.standard_normal((4, BANDS)),
        rng.uniform(1e-5, 1e-4, BANDS),
    )


@pytest.fixture(scope="module")
def light() -> np.ndarray:
    return np.stack([np.linspace(0.7, 1.1, BANDS), np.linspace(0.5, 0.1, BANDS)])


@pytest.fixture(scope="module")
def spectra() -> np.ndarray:
    return np.random.default_rng(1).uniform(0.02, 0.6, (40, BANDS)).astype(np.float32)


def dense(library, light, mean, std, index):
    """Mean and covariance of (z, w, x), written out as one Gaussian."""
    level = mean @ light
    rho = library.mean[index]
    jacobian = np.stack([light[0] * rho, light[1] * rho], 1)
    prior = np.diag(np.square(std))
    variable = np.concatenate([level * library.directions[index], level * library.factors])
    neighbours = TAU * library.mean.mean(0) * rho
    covariance = (
        jacobian @ prior @ jacobian.T
        + variable.T @ variable
        + np.outer(neighbours, neighbours)
        + np.diag(library.noise)
    )
    return level * rho, covariance, prior @ jacobian.T


def test_likelihood_is_that_of_the_dense_gaussian(library, light, spectra):
    found = PosteriorSolver.build(library, PRIOR, light).log_likelihood(torch.from_numpy(spectra)).numpy()
    for j in range(2):
        for index in range(CLASSES):
            mean, covariance, _ = dense(library, light, PRIOR.mean[j], PRIOR.std[j], index)
            expected = multivariate_normal(mean, covariance).logpdf(spectra)
            difference = found[:, j, index] - expected
            # The solver leaves out a term that is common to all components and classes of a pixel.
            if (j, index) == (0, 0):
                common = difference
            np.testing.assert_allclose(difference, common, rtol=2e-4, atol=0.02)


def test_light_and_classes_are_those_of_the_dense_gaussian(library, light, spectra):
    class_prior = np.array([0.5, 0.3, 0.2])
    found = PosteriorSolver.build(library, PRIOR, light, class_prior=class_prior).solve(
        torch.from_numpy(spectra)
    )
    log_weight, means, variances, distances = [], [], [], []
    for j in range(2):
        for index in range(CLASSES):
            mean, covariance, cross = dense(library, light, PRIOR.mean[j], PRIOR.std[j], index)
            residual = spectra - mean
            gain = cross @ np.linalg.inv(covariance)
            log_weight.append(
                multivariate_normal(mean, covariance).logpdf(spectra)
                + np.log(PRIOR.weight[j] * class_prior[index])
            )
            means.append(PRIOR.mean[j] + residual @ gain.T)
            variances.append(PRIOR.std[j, 0] ** 2 - (gain @ cross.T)[0, 0])
            distances.append((residual @ np.linalg.inv(covariance) * residual).sum(1))
    log_weight = np.array(log_weight)
    weight = np.exp(log_weight - log_weight.max(0))
    weight /= weight.sum(0)
    sun, sky = np.moveaxis(np.array(means), 2, 0)
    mean = (weight * sun).sum(0)
    std = np.sqrt((weight * (np.square(sun) + np.array(variances)[:, None])).sum(0) - mean**2)
    probability = weight.reshape(2, CLASSES, -1).sum(0).T
    np.testing.assert_allclose(found.logits.softmax(1), probability, atol=2e-3)
    np.testing.assert_allclose(found.sun, np.maximum(mean, 0), atol=2e-3)
    np.testing.assert_allclose(found.sun_std, std, rtol=0.05, atol=2e-3)
    np.testing.assert_allclose(found.sky, (weight * sky).sum(0), atol=5e-3)
    best = log_weight.argmax(0)
    np.testing.assert_allclose(found.distance, np.array(distances)[best, np.arange(40)], rtol=2e-3)


def test_linearised_light_is_close_to_the_product_of_light_and_reflectance(library, light):
    """Spectra drawn from x = (z·a + w·b) ⊙ (ρ + V c + F f) + e, without any linearisation."""
    rng = np.random.default_rng(3)
    count, index = 4000, 1
    z, w = (PRIOR.mean[0] + PRIOR.std[0] * rng.standard_normal((count, 2))).T
    reflectance = (
        library.mean[index]
        + rng.standard_normal((count, 2)) @ library.directions[index]
        + rng.standard_normal((count, 4)) @ library.factors
    )
    noise = np.sqrt(library.noise) * rng.standard_normal((count, BANDS))
    seen = (np.stack([z, w], 1) @ light) * reflectance + noise
    alone = replace(PRIOR, adjacency_std=0.0)
    found = PosteriorSolver.build(library, alone, light).solve(torch.from_numpy(seen.astype(np.float32)))
    assert (found.logits.argmax(1) == index).double().mean() > 0.98
    within = np.abs(found.sun.numpy() - z) <= 1.96 * found.sun_std.numpy()
    assert 0.93 < within.mean() < 0.97
    assert abs(found.distance.mean().item() / BANDS - 1) < 0.1


def test_flat_light_gives_the_probabilities_of_scikit_learns_lda():
    with open_scene(SAMPLES / "town.tif", SceneSettings()) as scene:
        labels = read_labels(SAMPLES / "town_labels.gpkg", scene.grid)
        drawn = draw_samples(scene, labels, per_class=80, unlabelled=3000)
    good = np.isfinite(drawn.spectra).all(0)
    spectra = drawn.spectra[:, good].astype(np.float64)
    classes = np.unique(drawn.pixels.class_id)
    uniform = np.full(len(classes), 1 / len(classes))
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=uniform)
    lda.fit(spectra, drawn.pixels.class_id)
    values, vectors = np.linalg.eigh(lda.covariance_)
    noise = np.full(good.sum(), 0.9 * values[0])
    library = SpectralLibrary(
        lda.means_,
        np.zeros((len(classes), 0, good.sum())),
        np.sqrt(values - noise)[:, None] * vectors.T,
        noise,
    )
    a = np.linspace(0.8, 1.1, good.sum())
    light = np.stack([a, 1 - 0.7 * a])  # z·a + w·b is 1 for z = .7 and w = 1
    solver = PosteriorSolver.build(library, LightPrior.flat(0.7), light)
    test = drawn.unlabelled[:, good]
    found = solver.solve(torch.from_numpy(test)).logits.softmax(1).numpy()
    np.testing.assert_allclose(found, lda.predict_proba(test.astype(np.float64)), atol=1e-3)


def test_the_level_of_brightness_widens_the_light_in_proportion(library, light, spectra):
    """What the brightness of a class mean leaves open is independent of the rest: variances add."""
    sure, open_ = (
        PosteriorSolver.build(library, PRIOR, light, level=level).solve(torch.from_numpy(spectra))
        for level in (0.0, 0.1)
    )
    torch.testing.assert_close(open_.sun, sure.sun)
    torch.testing.assert_close(open_.logits, sure.logits)
    lit = sure.sun > 0.05
    expected = (sure.sun_std.square() + (0.1 * sure.sun).square()).sqrt()
    assert lit.sum() > 20
    torch.testing.assert_close(open_.sun_std[lit], expected[lit], rtol=1e-4, atol=1e-6)


def test_nothing_is_left_on_the_cpu(library):
    """The whole prediction on a device without data, whose tensors refuse to meet one on the CPU."""
    wave = np.linspace(450.0, 2400.0, BANDS)
    irradiance = SpectralIrradiance(wave, np.full(BANDS, 900.0), np.full(BANDS, 200.0), 40.0)
    rng = np.random.default_rng(0)
    covariance = np.stack([np.eye(BANDS) * 1e-3, np.eye(BANDS) * 1e-2])
    classifier = Classifier(rng.random((2, CLASSES, BANDS)), covariance, 0.3)
    known = KnownLight(rng.random((50, 2)), np.array([0.1, 0.1]), 0.7)
    mixture = Mixture(classifier, library, PRIOR, known, physics=True)
    estimator = LibraryEstimator(mixture, np.full(CLASSES, 1 / CLASSES), (2.0, 1.5), 30.0).to("meta")
    tables = [v for v in vars(mixture.to("meta").solver(irradiance)).values() if isinstance(v, torch.Tensor)]
    assert {table.device.type for table in tables} == {"meta"}
    spectra = torch.rand((5000, BANDS), device="meta")
    found = estimator.predict_logits(spectra, irradiance, "posterior")
    parts = [*found, estimator.codes(spectra[:50], irradiance)]
    assert {part.device.type for part in parts} == {"meta"}
    assert found.logits.shape == (5000, CLASSES)


def test_known_light_is_bayes_with_a_kernel_density(library):
    """r against the same written out pixel by pixel, with scipy's densities."""
    rng = np.random.default_rng(2)
    labels, cos0, cos1 = rng.normal((0.8, 0.95), 0.06, (80, 2)), 0.8, 0.5
    prior = LightPrior.broad(cos0)
    known = KnownLight.fit(labels, 20, cos0, seed=0)
    width = np.maximum(2 * 20 ** (-1 / 6) * labels.std(0), 0.04)
    np.testing.assert_allclose(known.width, width)
    z, w = rng.uniform(0, 1.2, (2, 300))
    for cos_zenith in (cos0, cos1):
        table = known.table(prior, cos_zenith)
        found = interpolated(table, torch.tensor(z), torch.tensor(w)).numpy()
        at = np.stack([z, w], 1)
        centres = labels * (cos_zenith / cos0, 1)
        own = np.mean([multivariate_normal(c, np.diag(width**2)).pdf(at) for c in centres], 0)
        means = np.concatenate([[[cos_zenith, 1.0]], prior.mean[1:]])
        broad = np.mean(
            [multivariate_normal(m, np.diag(s**2)).pdf(at) for m, s in zip(means, prior.std, strict=True)],
            0,
        )
        np.testing.assert_allclose(found, own / (own + 0.1 * broad), atol=0.02)


def test_the_classifier_is_the_mean_of_two_of_scikit_learns_discriminants():
    with open_scene(SAMPLES / "town.tif", SceneSettings()) as scene:
        labels = read_labels(SAMPLES / "town_labels.gpkg", scene.grid)
        drawn = draw_samples(scene, labels, per_class=80, unlabelled=500)
    good = np.isfinite(drawn.spectra).all(0)
    spectra, test = (np.ascontiguousarray(part[:, good]) for part in (drawn.spectra, drawn.unlabelled))
    names, index = np.unique(drawn.pixels.class_id, return_inverse=True)
    data = TrainingSet(spectra, index, drawn.pixels.group, test)
    found = Classifier.fit(data, len(names)).log_posterior(torch.from_numpy(test)).exp().numpy()
    logs = []
    for view in (lambda x: x, lambda x: x / np.sqrt(np.square(x).mean(1, keepdims=True))):
        uniform = np.full(len(names), 1 / len(names))
        lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto", priors=uniform)
        lda.fit(view(spectra.astype(np.float64)), index)
        logs.append(np.log(np.maximum(lda.predict_proba(view(test.astype(np.float64))), 1e-300)))
    mean = np.exp((logs[0] + logs[1]) / 2)
    expected = mean / mean.sum(1, keepdims=True)
    assert np.mean(found.argmax(1) == expected.argmax(1)) > 0.98
    assert np.abs(found - expected).mean() < 0.02
