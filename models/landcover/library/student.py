"""The optional classifier q(y|x): it learns from relit labels and from the posterior of unlabelled pixels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from p3vae.models.landcover.job import Job, reporter
from p3vae.models.nn.classifiers import SpectralClassifier
from p3vae.models.nn.trainer import Optimisation, train

if TYPE_CHECKING:
    from p3vae.models.landcover.library.estimator import LibraryEstimator

_DESCENT = Optimisation(30, 2e-3)
_BATCH, _STEPS = 256, 60
_AS_IS = 0.5
"""Share of labelled examples that stay in their own light."""


def train_classifier(teacher: LibraryEstimator, job: Job) -> SpectralClassifier:
    """q(y|x), trained by cross-entropy: half on labels, half on unlabelled pixels with p(y|x) as target."""
    data, classes, seed = job.data, len(job.legend), job.settings.seed
    pool = torch.from_numpy(data.unlabelled[:8000])
    with torch.inference_mode():
        target = (
            teacher.predict_logits(pool, job.irradiance, "posterior").logits.softmax(1)
            if len(pool)
            else torch.zeros((0, classes))
        ).clone()
    rows = [torch.from_numpy(np.flatnonzero(data.class_index == k)) for k in range(classes)]
    labelled = torch.from_numpy(data.spectra)

    def batches(_: int, generator: torch.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(_STEPS):
            own = torch.randint(classes, (_BATCH,), generator=generator)
            drawn = torch.rand(_BATCH, generator=generator)
            chosen = torch.stack(
                [rows[k][int(share * len(rows[k]))] for k, share in zip(own.tolist(), drawn, strict=True)]
            )
            x = _relit(labelled[chosen], teacher, job, generator)
            y = torch.eye(classes)[own]
            if len(pool):
                some = torch.randint(len(pool), (_BATCH,), generator=generator)
                x, y = torch.cat([x, pool[some]]), torch.cat([y, target[some]])
            yield x, y

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = SpectralClassifier(len(job.bands), classes)
        net.standardise(torch.cat([labelled, pool]))
        net = net.to(job.device)
        train(
            net,
            batches,
            lambda batch: {"total": torch.nn.functional.cross_entropy(net(batch[0]), batch[1])},
            _DESCENT,
            seed=seed,
            on_epoch=reporter(job, _DESCENT.epochs, lambda: float("nan")),
        )
    return net.cpu()


def _relit(spectra: Tensor, teacher: LibraryEstimator, job: Job, generator: torch.Generator) -> Tensor:
    """Spectra of flat sunlit ground in light drawn from the prior."""
    count = len(spectra)
    rng = np.random.default_rng(int(torch.randint(2**31, (1,), generator=generator)))
    seen = teacher.prior.sample(count, rng) @ np.stack(
        [job.irradiance.direct_ratio, job.irradiance.diffuse_ratio]
    )
    as_is = torch.rand((count, 1), generator=generator) < _AS_IS
    return torch.where(as_is, spectra, spectra * torch.as_tensor(seen, dtype=torch.float32))
