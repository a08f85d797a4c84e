"""`p3vae reproduce`: the published tables beside ours."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import click

TABLES = ("simulated", "real", "disentanglement", "ablation", "methane", "pendulum", "all")


@click.command()
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True, type=click.Choice(TABLES))
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The paper's data: DIR/simulated/simulated.npz, DIR/toulouse/toulouse.npz and DIR/methane/*.csv. "
    "Default: built-in simulations.",
)
@click.option("--seeds", type=click.IntRange(1), help="Runs per model. Default: as published, 1 if --quick.")
@click.option("--quick", is_flag=True, help="A few minutes instead of hours: less data, fewer epochs.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reproduced"),
    show_default=True,
    metavar="OUT",
    help="Folder for tables, figures and finished runs.",
)
@click.option(
    "--model", "models", multiple=True, metavar="NAME", help="Run only this model; may be repeated."
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 1,
    help="Runs side by side, one thread each. Default: one per core.",
)
@click.option("--fresh", is_flag=True, help="Compute everything anew instead of going on.")
@click.option("--progress/--no-progress", default=None, help="Show progress. Default: on a terminal.")
def reproduce(
    tables: tuple[str, ...],
    data: Path | None,
    seeds: int | None,
    quick: bool,
    output: Path,
    models: tuple[str, ...],
    jobs: int,
    fresh: bool,
    progress: bool | None,
) -> None:
    """Print the paper's tables with our numbers beside the published ones.

    TABLE is simulated, real, disentanglement, ablation, methane, pendulum or all. OUT gets a JSON and a
    Markdown file per table and the figures. Finished runs are kept in OUT/runs: the same command goes on
    where it was stopped.
    """
    from p3vae.paper.reproduce.study import Request, reproduce

    request = Request(
        tables=tables,
        output=output,
        data=data,
        seeds=seeds,
        quick=quick,
        models=models,
        jobs=jobs,
        fresh=fresh,
        command=shlex.join(["p3vae", *sys.argv[1:]]),
        show_progress=progress,
    )
    for path in reproduce(request):
        click.echo(str(path))
