"""Semi-supervised InfoGAN (Spurr et al. 2017, arXiv:1707.04487) as a Wasserstein GAN with gradient penalty.

The generator makes spectra from noise, a class and continuous codes; the critic separates them from real
ones; the recognition network finds class and codes again. Labels teach it too. In the published network,
critic and recognition share their first layers; here each has its own: the critic's loss, which has no bound,
spoilt the features that separate classes (average F1 .72 with shared layers, .78 with own ones, on a scene
kept for such choices).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from p3vae.models.landcover.estimator import Frame
from p3vae.models.nn.trainer import Optimisation
from p3vae.paper.landcover.network import NetworkEstimator, SpectraBatch
from p3vae.paper.nn.classifiers import dense_classifier
from p3vae.paper.nn.layers import contiguous_segments, dense, frozen_call
from p3vae.paper.nn.losses import gaussian_misfit
from p3vae.physics.illumination import SpectralIrradiance

_NOISE = 16
_HIDDEN = 256
_CRITIC_STEPS = 5
"""Steps of the critic for one of the generator."""
_PENALTY = 10.0
"""Weight of the gradient penalty (Gulrajani et al. 2017)."""


class Critic(nn.Module):
    """A score of how real spectra look; their roughness is an input."""

    inside: Tensor

    def __init__(self, segments: tuple[int, ...]) -> None:
        super().__init__()
        run = torch.arange(len(segments)).repeat_interleave(torch.tensor(segments))
        self.register_buffer("inside", run[2:] == run[:-2], persistent=False)
        self.head = nn.Sequential(dense(len(run), _HIDDEN, _HIDDEN, _HIDDEN), nn.ReLU())
        self.score = dense(_HIDDEN + 1, _HIDDEN, 1)

    def forward(self, spectra: Tensor) -> Tensor:
        """Scores (samples,) of spectra (samples, bands)."""
        bend = (spectra.diff(n=2) * self.inside).abs().mean(1, keepdim=True)
        score: Tensor = self.score(torch.cat([self.head(spectra), bend], 1)).squeeze(1)
        return score


class Recognition(nn.Module):
    """q(y|x) and q(c|x)."""

    def __init__(self, bands: int, classes: int, codes: int) -> None:
        super().__init__()
        self.features = nn.Sequential(dense(bands, *[_HIDDEN] * 4), nn.ReLU())
        self.classes = dense_classifier(_HIDDEN, classes)
        self.codes = nn.Linear(_HIDDEN, 2 * codes)

    def forward(self, spectra: Tensor) -> Tensor:
        """Logits (samples, classes) of spectra (samples, bands)."""
        logits: Tensor = self.classes(self.features(spectra))
        return logits

    def code(self, spectra: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log standard deviation of the continuous codes, (samples, codes) each."""
        mean, log_std = self.codes(self.features(spectra)).chunk(2, 1)
        return mean, log_std.clamp(-3.0, 2.0)


class SemiSupervisedInfoGAN(NetworkEstimator):
    """Classes by the recognition network; its continuous codes are the latents."""

    classifier: Recognition
    descent: ClassVar[Optimisation] = Optimisation(
        200, 1e-4, 1e-4, clip_norm=0.0, keep_best=True, method="rmsprop"
    )

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame)
        bands, self.codes_count = len(frame.bands), 1 + frame.settings.spectra_per_class
        self.classifier = Recognition(bands, self.classes, self.codes_count)
        self.critic = Critic(contiguous_segments(frame.bands.wavelength_nm))
        inputs = _NOISE + self.codes_count + self.classes
        self.generator = nn.Sequential(dense(inputs, _HIDDEN, _HIDDEN, _HIDDEN, bands), nn.Sigmoid())

    def losses(self, batch: SpectraBatch) -> Mapping[str, Tensor]:
        """Critic and labels at every step; the generator and its codes at every fifth.

        Each term reaches only its own networks, so that one optimiser serves all.
        """
        real = torch.cat([batch.x, batch.unlabelled])
        y = torch.randint(self.classes, (len(real),), device=real.device)
        code = 2 * torch.rand((len(real), self.codes_count), device=real.device) - 1
        noise = torch.randn((len(real), _NOISE), device=real.device)
        made = self.generator(torch.cat([noise, code, F.one_hot(y, self.classes).to(code)], 1))
        terms = {
            "critic": self._critic_loss(real, made.detach()),
            "supervised": F.cross_entropy(self.classifier(batch.x), batch.y),
        }
        if batch.step % _CRITIC_STEPS == 0:
            terms["generator"] = -frozen_call(self.critic, made).mean()
            terms["information"] = self._information_loss(made, y, code)
        return {"total": torch.stack(list(terms.values())).sum(), **terms}

    def _critic_loss(self, real: Tensor, made: Tensor) -> Tensor:
        between = torch.lerp(real, made, torch.rand((len(real), 1), device=real.device)).requires_grad_()
        score = self.critic(between).sum()
        (slope,) = torch.autograd.grad(score, between, create_graph=True)
        penalty: Tensor = (slope.norm(dim=1) - 1).square().mean()
        apart: Tensor = self.critic(made).mean() - self.critic(real).mean()
        return apart + _PENALTY * penalty

    def _information_loss(self, made: Tensor, y: Tensor, code: Tensor) -> Tensor:
        """−log q(y, c | x) of the generator's class and codes, batch mean."""
        continuous = gaussian_misfit(code, *self.classifier.code(made)).mean()
        return F.cross_entropy(self.classifier(made), y) + continuous

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """Spectra of a class with codes, without noise."""
        y = F.one_hot(torch.full((len(codes),), index, device=codes.device), self.classes)
        made: Tensor = self.generator(
            torch.cat([codes.new_zeros((len(codes), _NOISE)), codes, y.to(codes)], 1)
        )
        return made

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """Means of the continuous codes, (samples, codes)."""
        return self.classifier.code(spectra)[0]


ESTIMATOR = SemiSupervisedInfoGAN
