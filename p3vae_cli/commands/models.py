"""`p3vae models`: which models there are."""

from __future__ import annotations

import json
from pathlib import Path

import click

from p3vae.cli.errors import ExitCode


@click.command()
@click.argument("given", nargs=-1, type=click.Path(path_type=Path), metavar="[MODEL]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.pass_context
def models(context: click.Context, given: tuple[Path, ...], as_json: bool) -> None:
    """List the shipped models, and each MODEL file given; `p3vae info MODEL` shows the card of one."""
    from p3vae.cli.console import stdout
    from p3vae.cli.landcover.model_card import list_models, render_list

    entries = list_models(given)
    if as_json:
        click.echo(json.dumps(entries, indent=2))
    else:
        stdout().print(render_list(entries))
    if any("error" in entry for entry in entries):
        context.exit(ExitCode.FAILED)
