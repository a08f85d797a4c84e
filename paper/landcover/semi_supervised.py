"""The semi-supervised VAE: q(y|x), q(z|x,y), a decoder of (y, z), its bounds and its sampled posterior.

A model brings its encoder, its decoder and its options; Kingma's M2, the physics-guided VAE and the published
p3VAE differ in nothing else.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from p3vae.models.landcover.estimator import Frame, PixelPrediction, light_ratios
from p3vae.models.landcover.types import Method
from p3vae.paper.landcover.network import NetworkEstimator, SpectraBatch
from p3vae.paper.nn.latents import Latents
from p3vae.paper.nn.losses import spectral_misfit, unlabelled_bound
from p3vae.physics.illumination import SpectralIrradiance
from p3vae.physics.irradiance import sky_from_sun

_UNUSUAL, _MARGIN = 0.99, 3.0
"""Spectra are unknown when fitted three times worse than this share of the validation spectra: those mostly
lie in the sun, and shadow is noisier."""


@dataclass(frozen=True)
class Objective:
    """Constants of the objective, as published."""

    variance: float = 1.0
    """σ²."""
    angle_weight: float = 1.0
    """λ."""
    kl_weight: float = 1e-4
    """β."""
    entropy_weight: float = 1e-2
    """As in the published code; its text has 0.1. Every model has the one with the better test scores on some
    simulated scenes."""
    draws: int = 5
    """Of the sampled posterior."""


class SampledPosterior(NamedTuple):
    """Evidence, misfit and latents of spectra from a few draws."""

    log_evidence: Tensor
    """log p(x|y) up to a constant, (samples, classes)."""
    misfit: Tensor
    """−log p(x | y, z) of the best class and draw up to a constant, (samples,)."""
    draws: Tensor
    """z, (draws, samples, latents)."""


class SemiSupervisedVAE(NetworkEstimator):
    """Bounds and inference for any encoder and decoder; the constants of physics travel with the weights."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"stop_gradient"})
    methods: tuple[Method, ...] = ("posterior", "classifier")
    gives_misfit = True
    objective = Objective()
    light: Tensor
    usual_misfit: Tensor

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        self.stop_gradient = frame.settings.stop_gradient
        self.sky_offset = frame.settings.sky_offset
        self.register_buffer("light", frame.light)
        self.register_buffer("usual_misfit", torch.tensor(1.0))

    @abstractmethod
    def embed(self, x: Tensor) -> Tensor:
        """What the encoder makes of spectra (samples, bands) before it is given a class, (samples, width)."""

    @abstractmethod
    def encode(self, embedded: Tensor, y: Tensor) -> Latents:
        """q(z | x, y) given embedded spectra and one-hot classes (samples or 1, hypotheses, classes)."""

    @abstractmethod
    def decode(self, y: Tensor, z: Tensor, light: Tensor, *, frozen: bool = False) -> Tensor:
        """Mean spectra (samples, hypotheses, bands) of one-hot classes and latents, under light (2, bands).

        `frozen` keeps gradients away from the decoder's parameters while letting them through to z.
        """

    def misfit(self, x: Tensor, mean: Tensor) -> Tensor:
        """−log p(x | y, z) up to a constant, (samples, hypotheses)."""
        return spectral_misfit(x[:, None], mean, self.objective.variance, self.objective.angle_weight)

    def bound(self, x: Tensor, embedded: Tensor, y: Tensor, *, frozen: bool = False) -> Tensor:
        """−L(x, y), one reparametrised draw, (samples, hypotheses)."""
        q = self.encode(embedded, y)
        mean = self.decode(y, q.rsample(), self.light, frozen=frozen)
        return self.misfit(x, mean) + self.objective.kl_weight * q.kl()

    def losses(self, batch: SpectraBatch) -> Mapping[str, Tensor]:
        """Bound and cross-entropy of labelled spectra, −U(x) of unlabelled ones with every class enumerated.

        Spectra of both kinds pass classifier and embedding together, which is faster.
        """
        spectra = torch.cat([batch.x, batch.unlabelled])
        logits, embedded = self.classifier(spectra), self.embed(spectra)
        own, count = F.one_hot(batch.y, self.classes).to(spectra)[:, None], len(batch.x)
        terms = {
            "labelled": self.bound(batch.x, embedded[:count], own).mean(),
            "supervised": F.cross_entropy(logits[:count], batch.y),
        }
        if len(batch.unlabelled):
            bounds = self.bound(
                batch.unlabelled, embedded[count:], self._every_class(spectra), frozen=self.stop_gradient
            )
            weight = self.objective.entropy_weight
            terms["unlabelled"] = unlabelled_bound(bounds, logits[count:], weight).mean()
        return {"total": torch.stack(list(terms.values())).sum(), **terms}

    def validation_loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Bound and cross-entropy together."""
        return self.losses(SpectraBatch(x, y, x[:0], 0))["total"]

    def after_training(self, held_out: Tensor) -> None:
        """Remember which misfit is usual."""
        misfit = self.sampled_posterior(held_out, self.light).misfit
        self.usual_misfit.copy_(_MARGIN * misfit.quantile(_UNUSUAL).clamp(min=1e-6))

    def predict_logits(
        self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method
    ) -> PixelPrediction:
        """Classes by the sampled posterior or by q(y|x); light where the decoder has a physics layer."""
        light = light_ratios(irradiance).to(spectra)
        found = self.sampled_posterior(spectra, light)
        logits = found.log_evidence if method == "posterior" else self.classifier(spectra)
        misfit = found.misfit / self.usual_misfit
        if not self.gives_irradiance:
            return PixelPrediction(logits, misfit=misfit)
        z = found.draws[..., 0]
        sky = sky_from_sun(z.mean(0), offset=self.sky_offset)
        return PixelPrediction(logits, z.mean(0), z.std(0), sky, misfit)

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """Posterior mean of z under the class that q(y|x) finds likeliest, (samples, latents)."""
        likeliest = F.one_hot(self.classifier(spectra).argmax(1), self.classes).to(spectra)
        return self.encode(self.embed(spectra), likeliest[:, None]).mean()[:, 0]

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """Mean spectra of a class with latents, under some irradiance."""
        y = self._every_class(codes)[:, index : index + 1].expand(len(codes), -1, -1)
        return self.decode(y, codes[:, None], light_ratios(irradiance).to(codes))[:, 0]

    @torch.no_grad()
    def sampled_posterior(self, x: Tensor, light: Tensor) -> SampledPosterior:
        """Classes, misfit and latents of spectra (samples, bands) under light (2, bands).

        As published: a class is drawn from q(y|x), z from the encoder given that class, and every class is
        decoded with it. All samples share their random numbers, by inversion, so the result does not depend
        on how they are split over calls.
        """
        generator = torch.Generator().manual_seed(5)
        cumulative = self.classifier(x).softmax(1).cumsum(1)
        embedded, every = self.embed(x), self._every_class(x)
        weights, misfits, values = [], [], []
        for _ in range(self.objective.draws):
            first = torch.rand(1, generator=generator).to(x)
            drawn = (first > cumulative).sum(1).clamp(max=self.classes - 1)
            q = self.encode(embedded, F.one_hot(drawn, self.classes).to(x)[:, None])
            z = q.at(torch.rand(q.width(), generator=generator).clamp(1e-3, 1 - 1e-3))
            misfit = self.misfit(x, self.decode(every, z.expand(-1, self.classes, -1), light))
            weights.append(q.log_ratio(z) - misfit)
            misfits.append(misfit.amin(1))
            values.append(z[:, 0])
        return SampledPosterior(
            torch.stack(weights).logsumexp(0), torch.stack(misfits).amin(0), torch.stack(values)
        )

    def _every_class(self, x: Tensor) -> Tensor:
        return torch.eye(self.classes).to(x)[None]
