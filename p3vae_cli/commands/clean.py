"""`p3vae clean`: removes what killed runs left."""

from __future__ import annotations

from pathlib import Path

import click

from p3vae.cli.errors import ExitCode


@click.command()
@click.argument("outputs", metavar="OUT...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.pass_context
def clean(context: click.Context, outputs: tuple[Path, ...], dry_run: bool) -> None:
    """Remove what killed runs left in OUT, and in the folders in it; products and running work stay.

    A set that was complete, and only not moved into place, is finished; one that was not is undone. Folders
    of such a name that no run has made there are named and left alone.
    """
    from p3vae.cli.records.verification import clean as remove
    from p3vae.cli.records.verification import leftovers

    failed = False
    for found in leftovers(outputs) if dry_run else remove(outputs):
        done = {"to be finished": "finished", "to be removed": "removed"}.get(found.state, found.state)
        if found.problem:
            failed = True
            click.echo(f"Error: {found.problem}", err=True)
        elif found.state == "foreign":
            click.echo(f"{found.path}: not made here by a run of p3vae, left alone")
        else:
            click.echo(f"{found.path}: {found.state if dry_run else done}")
    if failed:
        context.exit(ExitCode.FAILED)
