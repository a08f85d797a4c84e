"""The `p3vae` command: loads each subcommand on demand and turns errors into exit codes."""

from __future__ import annotations

import atexit
import codecs
import difflib
import errno
import gc
import importlib
import io
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import click

from p3vae.cli.commands.examples import epilog
from p3vae.cli.errors import ExitCode, P3vaeError
from p3vae.cli.signals import ignore_stop_signals, interrupt_on_signals

GROUPS = {
    "Map": ("classify", "irradiance-map", "invert-methane", "brightness"),
    "Learn": ("train", "suggest"),
    "Judge": ("assess", "sample", "explain"),
    "Look": ("info", "models", "report", "qgis", "spectra"),
    "Go on with maps": ("stats", "change", "smooth", "polygons"),
    "Archive": ("verify", "clean"),
    "Make": ("simulate", "reproduce"),
}
"""The commands, as the help shows them."""
COMMANDS = tuple(name for names in GROUPS.values() for name in names)


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
        command.epilog = command.epilog or epilog(cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with a guess at what a wrong name was meant to be."""
        near = difflib.get_close_matches(args[0], COMMANDS, n=1)
        if args[0] not in COMMANDS and near and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first sentence of every command, whole, in groups."""
        for group, names in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(f"{name:14}", self._summary(ctx, name)) for name in names])

    def _summary(self, ctx: click.Context, name: str) -> str:
        command = self.get_command(ctx, name)
        assert command is not None
        text = " ".join((command.help or "").partition("\n\n")[0].split())
        return text.partition(". ")[0].rstrip(".")

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
        atexit.register(ignore_stop_signals)
        warnings.formatwarning = lambda message, *_, **__: f"warning: {' '.join(str(message).split())}\n"
        sys.unraisablehook = _unraisable
        try:
            with interrupt_on_signals():
                return super().invoke(ctx)
        except P3vaeError as error:
            click.echo(f"Error: {error}", err=True)
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Error: stopped (no product is half-written; the same line goes on)", err=True)
            ctx.exit(ExitCode.STOPPED)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            click.echo("Error: too many files are open (raise the limit: ulimit -n 1024)", err=True)
            ctx.exit(ExitCode.FAILED)
        except MemoryError:
            click.echo(
                "Error: needs more memory than there is (close other programs, or map a part)", err=True
            )
            ctx.exit(ExitCode.FAILED)


def _prepare_streams() -> None:
    """Streams that take every line: none is missing, and a sign that stdout does not know becomes "?".

    GDAL's own lines, which come beside the errors that it returns, go nowhere unless CPL_LOG says where.
    """
    os.environ.setdefault("CPL_LOG", os.devnull)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the shell
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 - stays open to the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        known = codecs.lookup(sys.stdout.encoding).name == "utf-8"
        if sys.stdout.errors == "strict" or not known:
            sys.stdout.reconfigure(errors="replace")


def _unraisable(problem: Any) -> None:
    """Say what a callback could not raise, but for GDAL's messages in bytes that are no text."""
    if not str(problem.object).startswith("rasterio."):
        sys.__unraisablehook__(problem)


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

    Reads hyperspectral scenes (`p3vae info --formats` lists the products); writes georeferenced rasters with
    QGIS styles.
    """
