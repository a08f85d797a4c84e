"""`p3vae change`: what became of each class between two maps."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("first", type=FILE, metavar="MAP1")
@click.argument("second", type=FILE, metavar="MAP2")
@click.option("-o", "--output", type=OutputPath(), metavar="TIF", help="Also write a map of the changes.")
@click.option("--overwrite", is_flag=True, help="Replace an existing map.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def change(first: Path, second: Path, output: Path | None, overwrite: bool, as_json: bool) -> None:
    """List what became of each class from MAP1 to MAP2, which must have the same grid.

    Classes are compared by name. With confidence rasters beside both maps, every change has a confidence:
    the probability that both classes are right.
    """
    from p3vae.cli.assess.change import find_change
    from p3vae.cli.assess.change_report import table
    from p3vae.cli.console import stdout

    found = find_change(first, second, output, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    stdout().print(table(found))
    share = 100 * found.changed / found.pixels
    stdout().print(f"{share:.1f} % of {found.pixels:,} pixels changed", highlight=False)
