"""The brain of the default model: when the classifier is heard beside the posterior."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from p3vae.models.decoder_parts import Library, NoiseModel
from p3vae.models.exact_brain import ExactBrain
from p3vae.models.networks import SpectralClassifier
from tests.models.toy_ground import GRASS, LIGHT, ROAD, ROOF, WAVE, lit

LOUD = NoiseModel(floor=0.01, relative=0.02, smooth=0.0)


@pytest.fixture
def brain() -> ExactBrain:
    """With a classifier that says road, whatever it sees: its logits are the biases of its last layer."""
    classifier = SpectralClassifier(len(WAVE), 3)
    last = list(classifier.layers)[-1]
    torch.nn.init.zeros_(last.weight)
    with torch.no_grad():
        last.bias.copy_(torch.tensor([0.0, 1.0, 4.0]))
    library = Library((GRASS[None], ROOF[None], ROAD[None]), GRASS)
    return ExactBrain(library, LOUD, 1e9, classifier.eval(), WAVE)


@pytest.fixture
def deep_shadow() -> torch.Tensor:
    rng = np.random.default_rng(0)
    return torch.from_numpy(
        0.05 * np.concatenate([lit(m, 300, rng, flat=False) for m in (GRASS, ROOF, ROAD)])
    )


def test_the_classifier_tips_the_balance_of_classes_only_where_the_posterior_hesitates(brain, deep_shadow):
    alone = brain.solver(LIGHT).solve(deep_shadow).log_evidence
    with torch.inference_mode():
        both = brain.judge(deep_shadow, LIGHT, "posterior").logits
    certain = (alone.amax(1, keepdim=True) - alone < 7).sum(1) == 1
    assert 0.05 < certain.float().mean() < 0.95
    assert torch.equal(both[certain], alone[certain])
    # A quarter of the difference of its log probabilities: 4 for road over grass, 3 over roof.
    for k, ahead in ((0, 4.0), (1, 3.0)):
        odds = (both[:, 2] - both[:, k]) - (alone[:, 2] - alone[:, k])
        told = (alone.softmax(1).amax(1) < 0.99) & alone[:, [2, k]].isfinite().all(1)
        assert told.any()
        np.testing.assert_allclose(odds[told], 0.25 * ahead, atol=1e-4)


def striped(spectra: np.ndarray, rng: np.random.Generator) -> torch.Tensor:
    """The same with a residual of up to some times the noise."""
    stripes = np.where(np.arange(len(WAVE)) % 2, 1.0, -1.0)
    return torch.from_numpy(
        (spectra * (1 + rng.uniform(0.0, 0.3, (len(spectra), 1)) * stripes)).astype(np.float32)
    )


def test_what_the_noise_does_not_explain_is_the_share_of_the_classifier(brain):
    """A residual of three times the noise: by two thirds the decoder may be wrong altogether."""
    rng = np.random.default_rng(1)
    odd = striped(lit(GRASS, 64, rng, flat=True), rng)
    alone = brain.solver(LIGHT).solve(odd)
    assert (alone.log_evidence.softmax(1)[:, 0] > 0.9999).all()  # surely grass, if anything it knows
    with torch.inference_mode():
        both = brain.judge(odd, LIGHT, "posterior").logits.numpy()
    misfit = alone.misfit.numpy()
    assert misfit.min() < 1
    assert misfit.max() > 3
    # Road is 7 behind for the posterior, 6 with a quarter of the classifier's word, for which it is 4 ahead.
    explained = 1 / np.maximum(misfit[misfit > 1], 1)
    ahead = (both[:, 2] - both[:, 0])[misfit > 1]
    np.testing.assert_allclose(ahead, 4 * (1 - explained) - 6 * explained, atol=1e-3)
    assert (both.argmax(1)[misfit < 2.4] == 0).all()
    assert (both.argmax(1)[misfit > 2.6] == 2).all()


def test_scatter_tells_the_class_of_the_unknown_and_the_light_of_the_strange(brain):
    """Unknown from a misfit of 2 on, strange from 6 on; scatter knows only grass, and twice as bright."""
    rng = np.random.default_rng(1)
    odd = striped(2 * lit(GRASS, 400, rng, flat=True), rng)
    bright = Library((2 * GRASS[None], 0.01 * ROOF[None], 0.01 * ROAD[None]), GRASS, 1e-3 * np.eye(len(WAVE)))
    spared = replace(brain, unknown_misfit=2.0, spare=(bright, LOUD), _solvers={})
    misfit = brain.solver(LIGHT).solve(odd).misfit
    with torch.inference_mode():
        before, after = (one.judge(odd, LIGHT, "posterior") for one in (brain, spared))
        classified = spared.judge(odd, LIGHT, "classifier").logits
    known, strange = misfit <= 2, misfit > 6
    assert known.any() and strange.any() and (~known & ~strange).any()
    assert torch.equal(after.logits[known], before.logits[known])
    told = (misfit > 3).nonzero().squeeze(1)
    assert (before.logits[told].argmax(1) == 2).all()
    assert (after.logits[~known].argmax(1) == 0).all()
    assert torch.equal(classified.argmax(1) == 0, ~known)
    assert torch.equal(after.sun[~strange], before.sun[~strange])
    assert (after.sun[strange] < 0.95 * before.sun[strange]).all()


def test_a_learned_scatter_needs_no_witness(brain, deep_shadow):
    scattered = replace(brain, library=replace(brain.library, scatter=1e-4 * np.eye(len(WAVE))), _solvers={})
    alone = scattered.solver(LIGHT).solve(deep_shadow).log_evidence
    assert torch.equal(scattered.judge(deep_shadow, LIGHT, "posterior").logits, alone)


def test_company_does_not_change_who_is_heard(brain, deep_shadow):
    """To the last bit, however pixels are split: a witness at the brink would change much."""
    rng = np.random.default_rng(2)
    odd = striped(np.concatenate([lit(m, 300, rng, flat=False) for m in (GRASS, ROOF, ROAD)]), rng)
    for pixels, size in itertools.product((deep_shadow, odd), (1, 7, 31)):
        with torch.inference_mode():
            whole = brain.judge(pixels, LIGHT, "posterior").logits
            parts = [brain.judge(part, LIGHT, "posterior").logits for part in torch.split(pixels, size)]
        assert torch.equal(torch.cat(parts), whole)
