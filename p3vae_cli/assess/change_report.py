"""Changes on the screen."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from p3vae.cli.assess.change import Change
from p3vae.cli.rasters.areas import area_format


def table(found: Change) -> Table:
    """From, to, pixels, hectares and confidence; the largest change first."""
    made = Table(box=None, pad_edge=False)
    for heading in ("From", "To"):
        made.add_column(heading)
    for heading in ("Pixels", "Hectares", "Confidence"):
        made.add_column(heading, justify="right", no_wrap=True)
    form = area_format(sum(transition.hectares or 0.0 for transition in found.transitions))
    for transition in found.transitions:
        made.add_row(
            transition.before,
            Text.assemble(("■ ", transition.colour), transition.after),
            f"{transition.pixels:,}",
            "–" if transition.hectares is None else f"{transition.hectares:{form}}",
            "–" if transition.confidence is None else f"{transition.confidence:.2f}",
        )
    return made
