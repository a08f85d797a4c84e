"""What the commands have in common: checks before they work, grouped help, options from a file."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from p3vae.cli.errors import UsageError
from p3vae.cli.params import OutputPath
from p3vae.cli.settings import GROUPS, MACHINE, GroupedOption


class FileCommand(click.Command):
    """A command whose outputs, before any work starts, are checked to be none of its inputs.

    Whatever value is the path of a file, and no `OutputPath`, is an input.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        rest = super().parse_args(ctx, args)
        if ctx.resilient_parsing:
            return rest
        from p3vae.cli.scenes.inputs import declared, require_no_input

        ctx.with_resource(declared(_inputs(ctx)))
        for param in self.params:
            if isinstance(param.type, OutputPath):
                for path in _values(ctx, param):
                    for end in ("", *param.type.also):
                        require_no_input(path.with_name(path.name + end))
        return rest

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options by their groups; the last holds those that hardly anybody needs."""
        rows: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                rows[getattr(param, "group", "")].append(record)
        for group, records in rows.items():
            if records:
                with formatter.section(group or "Options"):
                    formatter.write_dl(records)


def _values(ctx: click.Context, param: click.Parameter) -> Iterator[Path]:
    """The values of a parameter that could be paths."""
    value = ctx.params.get(param.name or "")
    for one in value if isinstance(value, tuple) else (value,):
        if isinstance(one, str | Path) and Path(one).name:
            yield Path(one)


def _inputs(ctx: click.Context) -> Iterator[Path]:
    """Every file that a call names, those in lists and of globs too; a list on stdin is read later."""
    yield from ctx.meta.get(_CONFIG, ())
    for param in ctx.command.params:
        if isinstance(param.type, OutputPath):
            continue
        for path in _values(ctx, param):
            yield path
            if param.name == "scenes":
                yield from _scenes(str(path), null=bool(ctx.params.get("null")))


def _scenes(typed: str, *, null: bool) -> Iterator[Path]:
    from p3vae.cli.run.lists import expand_scenes

    is_list = typed.startswith("@")
    if is_list:
        yield Path(typed[1:])
    with suppress(UsageError, OSError, ValueError):  # which the command itself will report
        if typed == "-" or (is_list and not Path(typed[1:]).is_file()):
            return  # a pipe can be read once
        yield from expand_scenes([typed], null=null)


_CONFIG = "p3vae.config"
"""Where the path of --config is kept: it is no value of the command."""
scenes_argument = click.argument("scenes", nargs=-1, required=True, metavar="SCENE...")
null_option = click.option(
    "-0", "--null", is_flag=True, help="Names in lists end with a zero byte (find -print0)."
)


def _read_config(context: click.Context, config: click.Parameter, path: Path | None) -> None:
    """Values of a TOML file become the defaults of the options of the same names."""
    if path is None:
        return
    context.meta[_CONFIG] = (path,)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UsageError(
            f"cannot be read as TOML: {error}",
            path=path,
            remedy='write lines such as output = "maps"',
        ) from error
    except RecursionError as error:
        raise UsageError("cannot be read as TOML: it is nested too deeply", path=path) from error
    options = {
        spelling.removeprefix("--"): option
        for option in context.command.params
        if isinstance(option, click.Option) and option is not config
        for spelling in (*option.opts, *option.secondary_opts)
        if spelling.startswith("--")
    }
    defaults = {}
    for key, value in values.items():
        option = options.get(key)
        if option is None:
            near = difflib.get_close_matches(key, options, n=1)
            meant = f"did you mean {near[0]!r}? " if near else ""
            raise UsageError(
                f"sets {key!r}, which is no option of {context.info_name}",
                path=path,
                remedy=f"{meant}see p3vae {context.info_name} --help",
            )
        try:
            defaults[option.name] = _config_value(option, key, value)
        except click.BadParameter as error:
            raise UsageError(f"sets {key!r} to {value!r}: {error.message}", path=path) from error
    context.default_map = {**(context.default_map or {}), **defaults}


def _config_value(option: click.Option, key: str, value: Any) -> Any:
    """A value from TOML as click takes it from the command line."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise click.BadParameter("expected true or false")
        return value != (f"--{key}" in option.secondary_opts)
    parts = [_config_text(part) for part in (value if isinstance(value, list) else [value])]
    if option.multiple:
        return parts
    if isinstance(value, list) and option.type is not click.STRING:
        raise click.BadParameter("expected a single value")
    text = ",".join(parts)
    option.type.convert(text, option, None)  # an error here still knows the file
    return text


def _config_text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise click.BadParameter("expected a number or text")
    if "\0" in str(value):
        raise click.BadParameter("it holds a zero byte")
    return str(value)


config_option = click.option(
    "--config",
    cls=GroupedOption,
    group=MACHINE,
    type=click.Path(path_type=Path),
    callback=_read_config,
    is_eager=True,
    expose_value=False,
    metavar="TOML",
    help="Options from a file, by their long names without dashes in front.",
)
