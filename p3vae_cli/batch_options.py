"""Options of commands that map several scenes: which of them, where, how many at once, and what is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from p3vae.cli.run.lists import Shard
from p3vae.cli.run.naming import NameTemplate


class OutputPath(click.Path):
    """The path of a file or folder that a command writes; see `options.FileCommand`."""

    def __init__(self, *, also: tuple[str, ...] = ()) -> None:
        """`also` are ends that follow the name of a file that is written beside it."""
        super().__init__(path_type=Path)
        self.also = also


null_option = click.option(
    "-0", "--null", is_flag=True, help="Names in lists end with a zero byte (find -print0)."
)

BATCH_OPTIONS = (
    click.option(
        "--output-template",
        metavar="TEXT",
        help='Folders and names of products below --output, e.g. "{parent}/{stem}".',
    ),
    click.option(
        "--resume/--no-resume",
        default=None,
        help="Skip scenes whose manifest shows that they are done. Default: unless --overwrite.",
    ),
    click.option(
        "--on-error",
        type=click.Choice(["skip", "stop"]),
        default="skip",
        show_default=True,
        help="What a failed scene means for those after it.",
    ),
    click.option(
        "-j", "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Scenes side by side."
    ),
    click.option("--scheduler", metavar="tcp://HOST:PORT", help="Map on the workers of a Dask cluster."),
    click.option(
        "--worker-timeout",
        "worker_patience_s",
        type=click.FloatRange(min=0, min_open=True, max=1e9),
        default=60.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait while the cluster has no worker.",
    ),
    click.option("--shard", metavar="I/N", help="Only the I-th of N parts of the scenes, e.g. 2/8."),
    null_option,
    click.option(
        "--log-file",
        type=OutputPath(),
        metavar="FILE",
        help="Add a JSON line with the time for everything that happens.",
    ),
    click.option(
        "--stac", is_flag=True, help="Write a STAC item beside each manifest, and a collection of them."
    ),
    click.option("--dry-run", is_flag=True, help="Only say what would be done, with an estimate."),
)
"""For several scenes; the names of their values are fields of `OutputOptions`, parsed where they are text."""


def batch_values(options: dict[str, Any]) -> dict[str, Any]:
    """Takes the values of `BATCH_OPTIONS` out of a command's options."""
    given = ("output_template", "resume", "on_error", "jobs", "scheduler", "worker_patience_s", "shard")
    values = {name: options.pop(name) for name in (*given, "null", "log_file", "stac", "dry_run")}
    template, shard = values.pop("output_template"), values.pop("shard")
    return values | {
        "template": None if template is None else NameTemplate.parse(template),
        "shard": None if shard is None else Shard.parse(shard),
    }
