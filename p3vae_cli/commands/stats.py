"""`p3vae stats`: what a map holds in each zone."""

from __future__ import annotations

import json
from pathlib import Path

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("map_path", type=FILE, metavar="MAP")
@click.option("--zones", type=FILE, required=True, metavar="FILE", help="Polygons, any OGR format.")
@click.option("--zone-field", metavar="NAME", help="Attribute that names the zones. Default: their number.")
@click.option("--csv", "csv_path", type=OutputPath(), metavar="FILE", help="Also write a table.")
@click.option("--overwrite", is_flag=True, help="Replace an existing table.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
def stats(
    map_path: Path, zones: Path, zone_field: str | None, csv_path: Path | None, overwrite: bool, as_json: bool
) -> None:
    """Sum up MAP in each zone: hectares of every class, or mean, std and range of a quantity.

    A pixel belongs to a zone if its centre does.
    """
    from p3vae.cli.assess.stats import save_csv, table, zone_statistics
    from p3vae.cli.console import stdout

    rows = zone_statistics(map_path, zones, zone_field)
    if csv_path is not None:
        save_csv(rows, csv_path, overwrite=overwrite, inputs=(map_path, zones))
    if as_json:
        click.echo(json.dumps(rows))
    else:
        stdout().print(table(rows))
