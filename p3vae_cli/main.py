"""The `p3vae` command: loads each subcommand on demand and turns errors into exit codes."""

from __future__ import annotations

import atexit
import gc
import importlib
from typing import Any

import click

from p3vae.cli.errors import P3vaeError

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

    def invoke(self, ctx: click.Context) -> Any:
        _spare_the_collector()
        try:
            return super().invoke(ctx)
        except P3vaeError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)


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
