"""`p3vae verify`: products against their manifests."""

from __future__ import annotations

import json
from pathlib import Path

import click

from p3vae.cli.errors import ExitCode, ProductError


@click.command()
@click.argument("outputs", metavar="OUT...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON line per manifest and per left folder.")
@click.option("-q", "--quiet", is_flag=True, help="Only what is wrong.")
@click.pass_context
def verify(context: click.Context, outputs: tuple[Path, ...], as_json: bool, quiet: bool) -> None:
    """Check every product in OUT: is it there, is it what its manifest says, has it its side files?

    OUT is a folder of products, with the folders in it, or a manifest. What killed runs left is listed, and
    removed by `p3vae clean`. Exit codes: 0 all whole, 1 none, 3 some.
    """
    from p3vae.cli.records.verification import leftovers
    from p3vae.cli.records.verification import verify as check

    damaged = whole = 0
    for found in check(outputs):
        damaged, whole = damaged + bool(found.problems), whole + (not found.problems)
        if as_json:
            click.echo(json.dumps(found.record()))
        elif found.problems or not quiet:
            click.echo(f"{found.manifest}: {'; '.join(found.problems) or f'{found.files} files are whole'}")
    for left in leftovers(outputs):
        click.echo(json.dumps(left.record()) if as_json else f"{left.path}: left by a run, {left.state}")
    if not damaged + whole:
        raise ProductError(
            "holds no manifest of p3vae", path=outputs[0], remedy="give a folder of products, or a manifest"
        )
    if not quiet and not as_json:
        click.echo(f"{whole} sets of products are whole, {damaged} are not", err=True)
    if damaged:
        context.exit(ExitCode.SOME_FAILED if whole else ExitCode.FAILED)
