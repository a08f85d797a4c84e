"""`p3vae smooth`: a class map without single pixels."""

from __future__ import annotations

from pathlib import Path

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("map_path", type=FILE, metavar="MAP")
@click.option("-o", "--output", type=OutputPath(), required=True, metavar="TIF", help="Map to write.")
@click.option(
    "--radius", type=click.IntRange(1, 50), default=1, show_default=True, metavar="PIXELS", help="1 is 3 x 3."
)
@click.option("--overwrite", is_flag=True, help="Replace an existing map.")
def smooth(map_path: Path, output: Path, radius: int, overwrite: bool) -> None:
    """Give every pixel of the class map MAP the commonest class around it (majority filter)."""
    from p3vae.cli.assess.class_maps import smooth as run

    changed = run(map_path, output, radius=radius, overwrite=overwrite)
    click.echo(f"{changed:,} pixels changed\n{output}")
