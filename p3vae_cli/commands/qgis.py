"""`p3vae qgis`: a QGIS project of the products of a folder."""

from __future__ import annotations

from pathlib import Path

import click

from p3vae.cli.options import FileCommand


@click.command(cls=FileCommand)
@click.argument("folder", type=click.Path(path_type=Path), metavar="OUT")
def qgis(folder: Path) -> None:
    """Write OUT/p3vae.qgz, a QGIS project of all products in the folder OUT.

    A group per scene, styles, titles and the scene itself in true colour; the folder can be moved. A project
    that was saved from QGIS is not replaced.
    """
    from p3vae.cli.report.project import save_project

    click.echo(str(save_project(folder)))
