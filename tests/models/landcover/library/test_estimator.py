"""The estimator of the default model: when classifier and scatter are heard beside the posterior."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from p3vae.models.landcover.library.decoder import Library, NoiseModel
from p3vae.models.landcover.library.estimator import LibraryEstimator
from p3vae.models.landcover.library.solver import PosteriorSolver
from p3vae.models.nn.classifiers import SpectralClassifier
from tests.models.landcover.toy_ground import GRASS, LIGHT, ROAD, ROOF, WAVE, lit

LOUD = NoiseModel(floor=0.01, relative=0.02, smooth=0.0)


@pytest.fixture
def estimator() -> LibraryEstimator:
    """With a classifier that says road, whatever it sees: its logits are the biases of its last layer."""
    classifier = SpectralClassifier(len(WAVE), 3)
    last = list(classifier.layers)[-1]
    torch.nn.init.zeros_(last.weight)
    with torch.no_grad():
        last.bias.copy_(torch.tensor([0.0, 1.0, 4.0]))
    library = Library((GRASS[None], ROOF[None], ROAD[None]), GRASS)
    return LibraryEstimator(library, LOUD, 1e9, classifier.eval(), WAVE)


@pytest.fixture
def deep_shadow() -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(
        0.05 * np.concatenate([lit(m, 300, rng, flat=False) for m in (GRASS, ROOF, ROAD)])
    )


def behind(logits: torch.Tensor) -> torch.Tensor:
    return (logits - logits.amax(1, keepdim=True)).clamp(min=-7)


def with_scatter(estimator: LibraryEstimator, unknown_misfit: float) -> LibraryEstimator:
    """With scatter of the same classes, all of them a little brighter."""
    brighter = tuple(1.1 * spectra for spectra in estimator.library.spectra)
    spare = Library(brighter, GRASS, 1e-4 * np.eye(len(WAVE)))
    return replace(estimator, unknown_misfit=unknown_misfit, spare=(spare, LOUD), _solvers={})


def test_scatter_is_heard_only_where_posterior_and_classifier_disagree(estimator, deep_shadow):
    """Where all fits well, the classifier tips the balance, and scatter settles what they see differently."""
    spared = with_scatter(estimator, 1e9)
    alone = estimator.solver(LIGHT).solve(deep_shadow)
    fits = alone.misfit < 1
    with torch.inference_mode():
        deaf, reported = (
            one.predict_logits(deep_shadow, LIGHT, "posterior").logits for one in (estimator, spared)
        )
        classified = spared.predict_logits(deep_shadow, LIGHT, "classifier").logits
        scatter = PosteriorSolver(spared.spare[0], LOUD, LIGHT.direct_ratio, LIGHT.diffuse_ratio, WAVE).solve(
            deep_shadow
        )
    certain = (behind(alone.log_evidence) > -7).sum(1) == 1
    disputed = ~certain & (alone.log_evidence.argmax(1) != 2)
    assert all((fits & rows).any() for rows in (certain, disputed, ~certain & ~disputed))
    assert torch.equal(reported[fits & certain], alone.log_evidence[fits & certain])
    # A quarter of the log probabilities of the classifier: road is 4 ahead of grass, and 3 of roof.
    own = behind(behind(alone.log_evidence) + 0.25 * torch.tensor([-4.0, -3.0, 0.0]))
    np.testing.assert_allclose(deaf[fits & ~certain], own[fits & ~certain], atol=1e-5)
    assert torch.equal(reported[~disputed], deaf[~disputed])
    third = behind(scatter.log_evidence)
    np.testing.assert_allclose(reported[fits & disputed], (own + third)[fits & disputed], atol=1e-4)
    assert (classified.argmax(1) == 2).all()


def striped(spectra: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """The same with a residual of up to some times the noise."""
    stripes = np.where(np.arange(len(WAVE)) % 2, 1.0, -1.0)
    return torch.from_numpy(
        (spectra * (1 + rng.uniform(0.0, 0.3, (len(spectra), 1)) * stripes)).astype(np.float32)
    )


@pytest.mark.parametrize("unknown", [1e9, 1.5], ids=["noise as it is", "noise too loud"])
def test_what_known_ground_does_not_show_is_the_share_of_the_classifier(estimator, unknown):
    """A residual of three times the usual: by two thirds the decoder may be wrong altogether."""
    rng = np.random.default_rng(1)
    odd = striped(lit(GRASS, 64, rng, flat=True), rng)
    alone = estimator.solver(LIGHT).solve(odd)
    assert (alone.log_evidence.softmax(1)[:, 0] > 0.9999).all()  # surely grass, if anything it knows
    with torch.inference_mode():
        both = (
            replace(estimator, unknown_misfit=unknown).predict_logits(odd, LIGHT, "posterior").logits.numpy()
        )
    misfit = alone.misfit.numpy() / min(unknown / 3, 1.0)
    assert misfit.min() < 1
    assert misfit.max() > 3
    # Road is 7 behind for the posterior, 6 with a quarter of the classifier's word, for which it is 4 ahead.
    explained = 1 / misfit[misfit > 1]
    ahead = (both[:, 2] - both[:, 0])[misfit > 1]
    np.testing.assert_allclose(ahead, 4 * (1 - explained) - 6 * explained, atol=1e-3)
    assert (both.argmax(1)[misfit < 2.4] == 0).all()
    assert (both.argmax(1)[misfit > 2.6] == 2).all()


def test_scatter_tells_the_class_of_the_unknown_and_the_light_of_the_strange(estimator):
    """Unknown from a misfit of 2 on, strange from 6 on; scatter knows only grass, and twice as bright."""
    rng = np.random.default_rng(1)
    odd = striped(2 * lit(GRASS, 400, rng, flat=True), rng)
    bright = Library((2 * GRASS[None], 0.01 * ROOF[None], 0.01 * ROAD[None]), GRASS, 1e-3 * np.eye(len(WAVE)))
    deaf = replace(estimator, unknown_misfit=2.0)
    spared = replace(deaf, spare=(bright, LOUD), _solvers={})
    solved = estimator.solver(LIGHT).solve(odd)
    alone, misfit = solved.log_evidence, solved.misfit
    with torch.inference_mode():
        before, after = (one.predict_logits(odd, LIGHT, "posterior") for one in (deaf, spared))
        classified = spared.predict_logits(odd, LIGHT, "classifier").logits
        scatter = PosteriorSolver(bright, LOUD, LIGHT.direct_ratio, LIGHT.diffuse_ratio, WAVE).solve(odd)
    known, strange = misfit <= 2, misfit > 6
    assert known.any() and strange.any() and (~known & ~strange).any()
    # Grass for the posterior and road for the classifier: scatter is the opinion on what is unknown, and a
    # third witness of what is not but fits worse than known ground, whose misfit is up to two thirds.
    word = torch.tensor([-4.0, -3.0, 0.0])
    own, third = behind(torch.tensor([[0.0, -7.0, -7.0]]) + 0.25 * word), behind(scatter.log_evidence)
    explained = 1 / (misfit / (2 / 3)).clamp(min=1)[:, None]
    expected = torch.where(
        known[:, None],
        explained * own + (1 - explained) * word + third,
        explained * own + (1 - explained) * third,
    )
    doubted = misfit > 2 / 3
    assert (known & doubted).any() and (alone.softmax(1)[:, 0] > 0.9999).all()
    np.testing.assert_allclose(after.logits[doubted], expected[doubted], atol=1e-3)
    reported = (misfit > 3).nonzero().squeeze(1)
    assert (before.logits[reported].argmax(1) == 2).all()
    assert (after.logits[~known].argmax(1) == 0).all()
    assert torch.equal(classified.argmax(1) == 0, ~known)
    assert torch.equal(after.sun[~strange], before.sun[~strange])
    assert (after.sun[strange] < 0.95 * before.sun[strange]).all()


def test_a_learned_scatter_needs_no_witness(estimator, deep_shadow):
    scattered = replace(
        estimator, library=replace(estimator.library, scatter=1e-4 * np.eye(len(WAVE))), _solvers={}
    )
    alone = scattered.solver(LIGHT).solve(deep_shadow).log_evidence
    assert torch.equal(scattered.predict_logits(deep_shadow, LIGHT, "posterior").logits, alone)


def test_company_does_not_change_who_is_heard(estimator, deep_shadow):
    """To the last bit, however pixels are split: a witness at the brink would change much."""
    rng = np.random.default_rng(2)
    odd = striped(np.concatenate([lit(m, 300, rng, flat=False) for m in (GRASS, ROOF, ROAD)]), rng)
    spared = with_scatter(estimator, 2.0)
    for pixels, size in itertools.product((deep_shadow, odd), (1, 7, 31)):
        with torch.inference_mode():
            whole = spared.predict_logits(pixels, LIGHT, "posterior").logits
            parts = [
                spared.predict_logits(part, LIGHT, "posterior").logits for part in torch.split(pixels, size)
            ]
        assert torch.equal(torch.cat(parts), whole)


def test_the_classifier_sees_shape_and_log_level_at_their_own_scale():
    torch.manual_seed(0)
    classifier = SpectralClassifier(12, 3)
    spectra = torch.rand(50, 12) * torch.rand(50, 1)
    rms = spectra.square().mean(1, keepdim=True).sqrt()
    features = torch.cat([spectra / rms, rms.log()], 1)
    classifier.standardise(spectra)
    standard = (features - features.mean(0)) / features.std(0)
    np.testing.assert_allclose(
        classifier(spectra).detach(), classifier.layers(standard).detach(), rtol=1e-4, atol=1e-5
    )
