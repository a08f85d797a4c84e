"""`p3vae spectra`: the spectra of a model, for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("model", type=FILE, required=False, metavar="[MODEL]")
@click.option(
    "-o",
    "--output",
    "outputs",
    type=OutputPath(),
    multiple=True,
    required=True,
    metavar="FILE",
    help="ENVI library (.sli), table (.csv), page (.html) or picture (.png); repeatable.",
)
@click.option("--overwrite", is_flag=True, help="Replace existing files.")
def spectra(model: Path | None, outputs: tuple[Path, ...], overwrite: bool) -> None:
    """Write the reflectance spectra that MODEL holds for each class (its endmembers).

    The first of a class is its typical spectrum; the others, one standard deviation off, show how it varies.
    Brightness is that of the training pixels, shaded ones included. Default: the shipped model.
    """
    from p3vae.cli.landcover.spectra import export_spectra

    for name, count in export_spectra(model, outputs, overwrite=overwrite).items():
        click.echo(f"{count:4} {name}")
