"""`p3vae sample`: places of a class map to label for its assessment."""

from __future__ import annotations

import json
from pathlib import Path

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("map_path", type=FILE, metavar="MAP")
@click.option("-o", "--output", type=OutputPath(), required=True, metavar="GPKG", help="GeoPackage to write.")
@click.option(
    "-n", "--n", "count", type=click.IntRange(1), default=300, show_default=True, help="Samples in all."
)
@click.option(
    "--minimum", type=click.IntRange(1), default=50, show_default=True, help="Samples of a rare class."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same points.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def sample(
    map_path: Path, output: Path, count: int, minimum: int, seed: int, overwrite: bool, as_json: bool
) -> None:
    """Draw a random sample of pixels from the class map MAP, stratified by class.

    The points have an empty field "class" to fill in. Nodata and unknown pixels are not drawn.
    """
    from p3vae.cli.assess.sample import sample as run
    from p3vae.cli.console import stdout

    drawn = run(map_path, output, count=count, minimum=minimum, seed=seed, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps({"output": str(output), "samples": drawn}))
        return
    for name, number in drawn.items():
        stdout().print(f"{number:6,} {name}", highlight=False)
    stdout().print(f"{output}", highlight=False, soft_wrap=True)
