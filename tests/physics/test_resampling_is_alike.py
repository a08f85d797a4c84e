"""A resampled pixel is the same to the bit, whatever is resampled with it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from p3vae.physics.spectral_response import BandAdapter, Bands, adapt_bands, resampling_matrix

SOURCE = Bands.from_centres(np.linspace(400.0, 2480.0, 230))
ADAPTERS = {
    "interpolated": adapt_bands(SOURCE, Bands.from_centres(np.linspace(405.0, 2470.0, 230))),
    "blurred": adapt_bands(SOURCE, Bands.from_centres(np.linspace(405.0, 2470.0, 230), np.full(230, 22.0))),
    "coarser": adapt_bands(SOURCE, Bands.from_centres(np.linspace(430.0, 2400.0, 37), np.full(37, 60.0))),
}
SPECTRA = np.random.default_rng(0).random((300, 230), dtype=np.float32)


def resampled(adapter: BandAdapter, spectra: np.ndarray, threads: int) -> np.ndarray:
    with threadpool_limits(threads):
        return adapter(spectra)


@settings(deadline=None, max_examples=150)
@given(
    name=st.sampled_from(list(ADAPTERS)),
    pixels=st.integers(1, 300),
    edges=st.lists(st.integers(0, 300), max_size=6),
    layouts=st.tuples(st.sampled_from("CF"), st.sampled_from("CF")),
    threads=st.tuples(st.sampled_from([1, 2]), st.sampled_from([1, 2])),
)
def test_any_split_in_any_layout_equals_the_whole(name, pixels, edges, layouts, threads):
    adapter, spectra = ADAPTERS[name], SPECTRA[:pixels]
    whole = resampled(adapter, np.asarray(spectra, order=layouts[0]), threads[0])
    cuts = np.split(np.asarray(spectra, order=layouts[1]), sorted(min(edge, pixels) for edge in edges))
    parts = np.concatenate([resampled(adapter, part, threads[1]) for part in cuts])
    np.testing.assert_array_equal(parts.view(np.int32), whole.view(np.int32))


@pytest.mark.parametrize("name", ADAPTERS)
def test_the_sum_over_neighbours_is_the_product_with_all_weights(name):
    adapter = ADAPTERS[name]
    exact = SPECTRA.astype(np.float64) @ resampling_matrix(adapter.source, adapter.target)
    np.testing.assert_allclose(adapter(SPECTRA), exact, rtol=1e-6, atol=1e-6)


def test_images_and_threads_side_by_side_give_the_same():
    adapter = ADAPTERS["blurred"]
    whole = adapter(SPECTRA)
    assert np.array_equal(adapter(SPECTRA.reshape(12, 25, 230)), whole.reshape(12, 25, 230))
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(adapter, np.array_split(SPECTRA, 7)))
    assert np.array_equal(np.concatenate(parts), whole)
    assert adapter(SPECTRA[:0]).shape == (0, 230)
