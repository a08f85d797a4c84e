"""The `p3vae` command: loads each subcommand on demand and turns errors into exit codes."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any

import click

from p3vae.cli.base.errors import ExitCode, P3vaeError

COMMANDS = (
    "info",
    "classify",
    "irradiance-map",
    "invert-methane",
    "train",
    "brightness",
    "simulate",
    "reproduce",
)


class LazyGroup(click.Group):
    """Imports a command only when it is asked for, so that `p3vae --help` stays instant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"p3vae.cli.commands.{name}")
        command: click.Command = getattr(module, name)
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        _prepare_streams()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if not _stdout_fails():
                raise
            click.echo(f"Error: stdout cannot be written: {error.strerror}", err=True)
            sys.exit(ExitCode.FAILED)

    def invoke(self, ctx: click.Context) -> Any:
        _spare_the_collector()
        try:
            return super().invoke(ctx)
        except P3vaeError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)


def _prepare_streams() -> None:
    """Streams that take every line: none is missing, and a sign that stdout does not know becomes "?"."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - stays open to the end
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="replace")


def _stdout_fails() -> bool:
    """True when stdout takes no line; what still waits to be written is dropped then."""
    try:
        print(flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _spare_the_collector() -> None:
    """Look for garbage less often, and not at all at the end.

    Libraries bring hundreds of thousands of objects that stay; walking through them while more are imported,
    and once more on leaving, takes half a second.
    """
    gc.set_threshold(100_000, 20, 20)
    atexit.register(gc.freeze)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="p3vae", message="p3vae %(version)s")
def main() -> None:
    """Maps from hyperspectral scenes by models that know about sun, shadow, slope and gas.

    Reads GeoTIFF, ENVI, PRISMA, EnMAP and EMIT; writes georeferenced rasters with QGIS styles.
    """
