"""The spectral CNN: a convolution branch per contiguous run of bands, dense layers, labels only."""

from __future__ import annotations

from typing import ClassVar

from p3vae.paper.landcover.network import NetworkEstimator


class SpectralCNN(NetworkEstimator):
    """q(y|x) and nothing else, trained by cross-entropy."""

    learns_unlabelled: ClassVar[bool] = False


ESTIMATOR = SpectralCNN
