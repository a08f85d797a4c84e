"""`p3vae report`: one HTML page about the products of a folder."""

from __future__ import annotations

from pathlib import Path

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("folder", type=FILE, metavar="OUT")
@click.option(
    "-o", "--output", type=OutputPath(), metavar="HTML", help="Page to write. Default: OUT/report.html."
)
@click.option(
    "-m", "--model", type=FILE, metavar="MODEL", help="Also show this model: spectra, validation, settings."
)
@click.option("--reference", type=FILE, metavar="FILE", help='Also assess the land cover ("p3vae assess").')
@click.option("--overwrite", is_flag=True, help="Replace an existing page.")
def report(
    folder: Path, output: Path | None, model: Path | None, reference: Path | None, overwrite: bool
) -> None:
    """Show the products in the folder OUT on one HTML page that needs no network.

    Maps over the scene with an opacity slider, legends with hectares and units, spectra of the classes,
    plumes, and the settings of every run.
    """
    from p3vae.cli.report.write import write_report

    made = write_report(folder, output, model=model, reference=reference, overwrite=overwrite)
    click.echo(str(made))
