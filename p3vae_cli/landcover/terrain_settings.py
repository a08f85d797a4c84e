"""Settings of what terrain says of the light."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from p3vae.cli.params import FILE
from p3vae.cli.settings import LIGHT, OUTPUT, Settings, option


@dataclass(frozen=True)
class TerrainSettings(Settings):
    """Where the terrain is described; without either, the spectra alone decide about the light."""

    dem: Path | None = option(
        None,
        "--dem",
        type=FILE,
        metavar="FILE",
        group=LIGHT,
        help="Elevations, on any grid: slopes and shadows become one more observation of the light.",
    )
    incidence: Path | None = option(
        None,
        "--incidence",
        type=FILE,
        metavar="FILE",
        group=LIGHT,
        help="Cosine of incidence on the scene's grid, instead of --dem; also the OBS file of AVIRIS.",
    )

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return self.dem is not None or self.incidence is not None


@dataclass(frozen=True)
class TerrainMapSettings(TerrainSettings):
    """The same, and what is mapped of it."""

    layers: bool = option(
        False,
        "--terrain",
        group=OUTPUT,
        adds=True,
        help="Also write incidence, sky view and cast shadow of the terrain.",
    )
    audit: bool = option(
        False,
        "--audit",
        group=OUTPUT,
        adds=True,
        help="Also map where spectra and terrain disagree, and say if the terrain fits better elsewhere.",
    )
