"""`p3vae polygons`: a class map as polygons."""

from __future__ import annotations

from pathlib import Path

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("map_path", type=FILE, metavar="MAP")
@click.option("-o", "--output", type=OutputPath(), required=True, metavar="GPKG", help="GeoPackage to write.")
@click.option("--overwrite", is_flag=True, help="Replace an existing file.")
def polygons(map_path: Path, output: Path, overwrite: bool) -> None:
    """Write the class map MAP as polygons with class, colour, pixels and hectares."""
    from p3vae.cli.assess.class_maps import polygons as run

    count = run(map_path, output, overwrite=overwrite)
    click.echo(f"{count:,} polygons\n{output}")
