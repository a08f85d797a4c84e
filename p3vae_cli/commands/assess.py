"""`p3vae assess`: how good a map is, by reference data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from p3vae.cli.options import FileCommand
from p3vae.cli.params import OutputPath

FILE = click.Path(path_type=Path)


@click.command(cls=FileCommand)
@click.argument("map_path", type=FILE, metavar="MAP")
@click.option(
    "--reference",
    type=FILE,
    required=True,
    metavar="FILE",
    help="Points, polygons or a raster of classes; a raster for a MAP of a quantity.",
)
@click.option("--class-field", metavar="NAME", help='Attribute that names the class. Default: "class".')
@click.option(
    "--class-map",
    type=FILE,
    metavar="CSV|values",
    help="Columns reference,map: class names that differ; an empty one is left out. For a raster without "
    'names "values" says that its numbers are those of MAP.',
)
@click.option("--confidence", type=FILE, metavar="RASTER", help="Default: SCENE_confidence.tif beside MAP.")
@click.option("--std", type=FILE, metavar="RASTER", help="Default: the _std.tif beside a MAP of a quantity.")
@click.option(
    "--compare", type=FILE, metavar="MAP2", help="Another map on the same samples (McNemar's test)."
)
@click.option(
    "--csv", "csv_path", type=OutputPath(), metavar="FILE", help="Also write a table, one line per class."
)
@click.option(
    "--html",
    "html_path",
    type=OutputPath(),
    metavar="FILE",
    help="Also write a page with a reliability curve.",
)
@click.option("--overwrite", is_flag=True, help="Replace an existing table or page.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def assess(
    map_path: Path,
    csv_path: Path | None,
    html_path: Path | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Compare MAP with reference data.

    Of classes: error matrix, user's accuracy (how often a mapped class is right) and producer's accuracy
    (how much of a true class is found), F1, kappa, and areas (Olofsson et al. 2014). "±" is 1.96 standard
    errors, as published; the 95 % limits also hold for rare classes. All of them hold for a random sample
    stratified by map class, as "p3vae sample" draws it.

    Of a quantity: errors, slope, R², and how often the truth lies within the standard deviation.
    """
    from p3vae.cli.assess import tables as assess_report
    from p3vae.cli.assess.assessment import AssessRequest
    from p3vae.cli.assess.assessment import assess as run
    from p3vae.cli.console import stdout
    from p3vae.cli.records.manifest import finite
    from p3vae.cli.report.assessment import save_html

    found = run(AssessRequest(map=map_path, **options))
    if csv_path is not None:
        assess_report.save_csv(found, csv_path, overwrite=overwrite)
    if html_path is not None:
        save_html(found, html_path, overwrite=overwrite)
    if as_json:
        click.echo(json.dumps(finite(assess_report.record(found))))
    else:
        assess_report.show(found, stdout())
