"""FG-UNet: the same result however a scene is cut, and what it learns from labels and from none."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from p3vae.paper.landcover.fg_unet.network import HALO, FineGrainedUNet, PatchBatch

BANDS, CLASSES = 6, 3


def random_network(seed=0):
    """Untrained, with weights large enough for far neighbours to matter."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = FineGrainedUNet(BANDS, CLASSES)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=1.5 * parameter[0].numel() ** -0.5)
    return network.eval()


def features_of(network, rows, cols, seed, holes=True):
    rng = np.random.default_rng(seed)
    spectra = torch.from_numpy(rng.normal(size=(1, rows, cols, BANDS)).astype(np.float32))
    valid = torch.from_numpy(rng.random((1, rows, cols, 1)) > (0.1 if holes else 0))
    return network.spectral(spectra) * valid


def cuts(length):
    """Edges of random pieces of a side of a scene."""
    return st.sets(st.integers(1, max(1, length - 1)), max_size=4).map(
        lambda inner: [0, *sorted(i for i in inner if i < length), length]
    )


@st.composite
def tilings(draw):
    rows, cols = draw(st.integers(1, 75)), draw(st.integers(1, 75))
    return rows, cols, draw(cuts(rows)), draw(cuts(cols))


@settings(max_examples=30, deadline=None)
@given(tilings(), st.integers(0, 3))
def test_any_tiling_gives_the_result_of_the_whole_scene(tiling, seed):
    rows, cols, row_edges, col_edges = tiling
    network = random_network()
    with torch.inference_mode():
        features = features_of(network, rows, cols, seed)
        whole = network(features)[0]
        stitched = torch.full_like(whole, torch.nan)
        for top, bottom in itertools.pairwise(row_edges):
            for left, right in itertools.pairwise(col_edges):
                row, col = max(top - HALO, 0), max(left - HALO, 0)
                seen = features[:, row : bottom + HALO, col : right + HALO]
                found = network(seen, (row, col))[0][:, top - row :, left - col :]
                stitched[:, top:bottom, left:right] = found[:, : bottom - top, : right - left]
    scale = float(whole.abs().max())
    np.testing.assert_allclose(stitched, whole, atol=2e-5 * scale)


def test_the_halo_is_as_wide_as_needed_and_no_wider():
    """A single changed pixel reaches exactly HALO pixels, from the worst place in a pooling cell."""
    network = random_network()
    with torch.no_grad():
        features = features_of(network, 64, 64, 0, holes=False).double()
        network.double()
        reach = 0
        for row in range(28, 32):
            changed = features.clone()
            changed[0, row, 30] += 100.0
            moved = (network(changed)[0] - network(features)[0]).abs().amax(-1)[0]
            touched = moved.amax(1).nonzero().squeeze(1)
            reach = max(reach, row - int(touched.min()), int(touched.max()) - row)
    assert reach == HALO


def striped_batch(rng, known=0.05):
    """Two materials in broad stripes that differ by a weak slope; few labels, some nodata."""
    cell = (np.arange(16)[:, None] // 8 + np.zeros((16, 16), int)) % 2
    truth = np.stack([np.roll(cell, rng.integers(16), 0) for _ in range(6)])
    ends = np.array([np.linspace(0.2, 0.3, BANDS), np.linspace(0.3, 0.2, BANDS)], np.float32)
    spectra = ends[truth] + rng.normal(0, 0.05, (*truth.shape, BANDS)).astype(np.float32)
    labels = np.where(rng.random(truth.shape) < known, truth, -1)
    valid = rng.random(truth.shape) > 0.02
    return PatchBatch(*(torch.from_numpy(a) for a in (spectra, valid, labels))), truth


def fitted(batch, steps=60):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        network = FineGrainedUNet(BANDS, 2)
    network.standardise(batch.spectra[batch.valid])
    optimiser = torch.optim.Adam(network.parameters(), 5e-3)
    history = []
    for _ in range(steps):
        losses = network.losses(batch)
        optimiser.zero_grad()
        losses["total"].backward()
        optimiser.step()
        history.append({name: float(value.detach()) for name, value in losses.items()})
    return network, history


def test_losses_fall_and_unlabelled_pixels_are_classified():
    batch, truth = striped_batch(np.random.default_rng(0))
    network, history = fitted(batch)
    assert history[-1]["supervised"] < 0.3 * history[0]["supervised"]
    assert history[-1]["reconstruction"] < 0.8 * history[0]["reconstruction"]
    with torch.inference_mode():
        features = network.spectral(batch.spectra) * batch.valid[..., None]
        found = network(features)[0].argmax(-1).numpy()
    unseen = (batch.class_index.numpy() < 0) & batch.valid.numpy()
    assert (found == truth)[unseen].mean() > 0.85


def test_total_is_cross_entropy_plus_absolute_error():
    """Against both terms written out by hand, pixel by pixel."""
    batch, _ = striped_batch(np.random.default_rng(1))
    network = FineGrainedUNet(BANDS, 2)
    with torch.no_grad():
        losses = network.losses(batch)
        logits, neighbourhood = network(network.spectral(batch.spectra) * batch.valid[..., None])
        rebuilt = network.rebuild(neighbourhood).numpy()
    log_p = logits.log_softmax(-1).numpy()
    labels, valid, spectra = (a.numpy() for a in (batch.class_index, batch.valid, batch.spectra))
    entropy = -np.mean([log_p[i][labels[i]] for i in zip(*np.nonzero(labels >= 0), strict=True)])
    error = np.abs(spectra - rebuilt)[valid].mean()
    assert float(losses["supervised"]) == pytest.approx(entropy, rel=1e-5)
    assert float(losses["total"]) == pytest.approx(entropy + error, rel=1e-5)


def test_patches_without_labels_teach_by_reconstruction_alone():
    batch, _ = striped_batch(np.random.default_rng(2), known=0.0)
    network = FineGrainedUNet(BANDS, 2)
    losses = network.losses(batch)
    losses["total"].backward()
    assert float(losses["supervised"].detach()) == 0.0
    assert network.classify.weight.grad is None or not network.classify.weight.grad.any()
    assert network.fine[0].weight.grad.abs().max() > 0


def test_patches_without_any_data_teach_nothing():
    batch, _ = striped_batch(np.random.default_rng(4), known=0.0)
    losses = FineGrainedUNet(BANDS, 2).losses(batch._replace(valid=torch.zeros_like(batch.valid)))
    losses["total"].backward()
    assert {name: float(value.detach()) for name, value in losses.items()} == {
        "total": 0.0,
        "supervised": 0.0,
        "reconstruction": 0.0,
    }


def test_nodata_spectra_have_no_influence():
    batch, _ = striped_batch(np.random.default_rng(3))
    other = PatchBatch(
        torch.where(batch.valid[..., None], batch.spectra, torch.tensor(7.0)), batch.valid, batch.class_index
    )
    known = batch.class_index.masked_fill(~batch.valid, -1)
    network = random_network()
    with torch.no_grad():
        one = network.losses(PatchBatch(batch.spectra, batch.valid, known))
        two = network.losses(PatchBatch(other.spectra, batch.valid, known))
    assert {name: float(v) for name, v in one.items()} == {name: float(v) for name, v in two.items()}
