"""The brain of the default p3VAE: a library of latent spectra, its exact posterior, and a fast classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from p3vae.models.decoder_parts import Library, NoiseModel
from p3vae.models.landcover_brain import Frame, Judgement, Spectra, part
from p3vae.models.landcover_types import Method
from p3vae.models.networks import SpectralClassifier
from p3vae.models.posterior import PosteriorSolver, padded
from p3vae.physics.illumination import SpectralIrradiance

_FEW = 4096


@dataclass(frozen=True, eq=False)
class ExactBrain:
    """Latent spectra, noise and classifier."""

    library: Library
    noise: NoiseModel
    unknown_misfit: float
    """Misfit beyond which a spectrum counts as unknown, fixed on validation polygons."""
    classifier: SpectralClassifier
    wavelength_nm: npt.NDArray[np.float64]
    physics: bool = True
    device: str = "cpu"
    methods: tuple[Method, ...] = ("posterior", "classifier")
    gives_irradiance: bool = True
    gives_misfit: bool = True
    _solvers: dict[bytes, PosteriorSolver] = field(default_factory=dict, repr=False)

    def judge(self, spectra: Tensor, irradiance: SpectralIrradiance, method: Method) -> Judgement:
        """Class, light and misfit from the posterior; the class from the classifier if asked."""
        found = self.solver(irradiance).solve(spectra)
        logits = found.log_evidence if method == "posterior" else self._classified(spectra)
        return Judgement(logits, found.sun, found.sun_std, found.sky, found.misfit / self.unknown_misfit)

    def _classified(self, spectra: Tensor) -> Tensor:
        """Logits of the classifier, a few pixels at a time: its features are copies of the spectra.

        In whole lanes and one layout, for the same reason as in `padded`.
        """
        parts = torch.split(torch.arange(len(spectra), device=spectra.device), _FEW)
        return torch.cat([self.classifier(spectra[padded(rows)].contiguous())[: len(rows)] for rows in parts])

    def codes(self, spectra: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """z, w, and the mixing of the likeliest class, (pixels, 2 + most spectra of a class)."""
        from p3vae.models.library import explain  # brings scikit-learn, which maps do not need

        found = self.solver(irradiance).solve(spectra)
        best = found.log_evidence.argmax(1).cpu().numpy()
        pixels = spectra.cpu().numpy().astype(np.float64)
        mixing = np.zeros((len(pixels), max(len(rows) for rows in self.library.spectra)))
        for k in np.unique(best):
            rows, library = best == k, self.library.spectra[int(k)]
            mixing[rows, : len(library)] = explain(pixels[rows], library, self._light(irradiance)).mixing
        return torch.cat([found.sun[:, None], found.sky[:, None], found.sun.new_tensor(mixing)], 1)

    def generate(self, index: int, codes: Tensor, irradiance: SpectralIrradiance) -> Tensor:
        """The spectra of the class mixed and lit; codes as `codes` gives them."""
        spectra = codes.new_tensor(self.library.spectra[index])
        light = codes[:, :2] @ codes.new_tensor(self._light(irradiance))
        return light * (codes[:, 2 : 2 + len(spectra)] @ spectra)

    def latent_spectra(self) -> list[Spectra]:
        """The library."""
        return list(self.library.spectra)

    def solver(self, irradiance: SpectralIrradiance) -> PosteriorSolver:
        """The exact posterior under one illumination."""
        light = self._light(irradiance)
        if light.shape[1] != len(self.wavelength_nm):
            raise ValueError(f"irradiance has {light.shape[1]} bands, the model {len(self.wavelength_nm)}")
        key = light.tobytes()
        if key not in self._solvers:
            self._solvers[key] = PosteriorSolver(
                self.library, self.noise, light[0], light[1], self.wavelength_nm, self.device
            )
        return self._solvers[key]

    def _light(self, irradiance: SpectralIrradiance) -> npt.NDArray[np.float64]:
        """a and b, (2, bands); the twin without physics sees only a brightness."""
        light = np.stack([irradiance.direct_ratio, irradiance.diffuse_ratio])
        return light if self.physics else np.ones_like(light)

    def notes(self) -> dict[str, Any]:
        """Noise, misfit, and what kind of library it is."""
        return {
            "noise": asdict(self.noise),
            "unknown_misfit": self.unknown_misfit,
            "spectra_per_class": [len(rows) for rows in self.library.spectra],
            "scattered": self.library.scatter is not None,
        }

    def tensors(self) -> dict[str, Tensor]:
        """Library and classifier."""
        found = {"library.surroundings": torch.as_tensor(self.library.surroundings)}
        if self.library.scatter is not None:
            found["library.scatter"] = torch.as_tensor(self.library.scatter)
        found |= {f"library.{k}": torch.as_tensor(rows) for k, rows in enumerate(self.library.spectra)}
        return found | {f"classifier.{name}": v for name, v in self.classifier.state_dict().items()}

    def on(self, device: str) -> Self:
        """The same brain on another device."""
        return replace(self, classifier=self.classifier.to(device), device=device, _solvers={})

    @classmethod
    def restore(cls, frame: Frame, card: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Self:
        """The brain that gave these notes and tensors."""
        classifier = SpectralClassifier(len(frame.bands), len(frame.legend))
        classifier.load_state_dict(part(tensors, "classifier."))
        library = {name: values.cpu().numpy() for name, values in part(tensors, "library.").items()}
        return cls(
            Library(
                tuple(library[str(k)] for k in range(len(frame.legend))),
                library["surroundings"],
                library.get("scatter"),
            ),
            NoiseModel(**card["noise"]),
            float(card["unknown_misfit"]),
            classifier.eval(),
            frame.bands.wavelength_nm,
            frame.settings.physics,
        )
