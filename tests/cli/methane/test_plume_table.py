"""The quality of a plume: what makes it less than good, and nothing else."""

from __future__ import annotations

import pytest

from p3vae.cli.methane.plume_table import quality
from p3vae.models.methane.plumes.mass import Plume
from p3vae.models.methane.plumes.vetting import LogRatio


def plume(*, false_plumes: float = 0.001, log_ratio: LogRatio | None = None, cut: bool = False) -> Plume:
    place = (3.0, 4.0)
    return Plume(1, false_plumes, log_ratio, 20, 4000.0, 2000.0, place, place, place, cut, None, None, None)


@pytest.mark.parametrize(
    ("found", "clear_share", "said"),
    [
        (plume(), 1.0, "good"),
        (plume(), 0.81, "good"),
        (plume(), 0.79, "partly unclear"),
        (plume(cut=True), 1.0, "cut off"),
        (plume(false_plumes=0.1), 1.0, "uncertain"),
        (plume(false_plumes=0.1, log_ratio=LogRatio(5.0, 5.0)), 1.0, "good"),
        (
            plume(false_plumes=0.1, log_ratio=LogRatio(-5.0, 5.0), cut=True),
            0.1,
            "uncertain, cut off, partly unclear",
        ),
    ],
)
def test_flaws_are_named(found, clear_share, said):
    assert quality(found, clear_share) == said


def test_a_spectrum_multiplies_the_odds_of_a_plume():
    """Odds of ten to one by strength: a log ratio of 2 makes them 10 e^2, one of -2 10 e^-2."""
    for log_ratio, odds in ((None, 10.0), (LogRatio(2.0, 9.0), 73.8906), (LogRatio(-2.0, 9.0), 1.35335)):
        assert plume(false_plumes=0.1, log_ratio=log_ratio).probability == pytest.approx(
            odds / (1 + odds), rel=1e-5
        )
