"""Settings of a command: each declared once, as a field.

    @dataclass(frozen=True)
    class ClassifySettings(Settings):
        unknown: bool = option(False, "--unknown", group=RETRIEVAL, help="Mark pixels unlike the training.")

From the field come the option of the command line, its place in the help, its key in a TOML file, its keyword
in Python, and its entry in the manifest, by which a later run knows whether a scene is done. Settings may
hold others. Nothing heavy is imported here, nor by modules that only declare settings: `--help` needs them.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import click

from p3vae.cli.errors import UsageError

LABELS = "Labels"
MODEL = "Model"
RETRIEVAL = "Retrieval"
PLUMES = "Plumes and rates"
AREA = "Part and grid"
LIGHT = "Atmosphere and light"
SCENE = "What the file does not say"
OUTPUT = "Output"
ARCHIVE = "Archive"
MACHINE = "Machine"
RARE = "Rarely needed"
GROUPS = ("", LABELS, MODEL, RETRIEVAL, PLUMES, AREA, LIGHT, SCENE, OUTPUT, ARCHIVE, MACHINE, RARE)
"""Groups of options in the order in which the help shows them."""

_DECLARED = "option"


@dataclass(frozen=True)
class Declared:
    """What is known of a setting besides its value."""

    spellings: tuple[str, ...]
    help: str
    group: str
    parse: Callable[[Any], Any] | None
    """From what click gives, which is not None, to the value; None is as it is."""
    decides: bool
    """Whether the products depend on it."""
    adds: bool
    """Whether it adds products, or classes to a map, but changes no map that two commands make."""
    click: Mapping[str, Any]
    """Further arguments of `click.Option`."""

    @property
    def keyword(self) -> str:
        """Its name in Python: the first long option, without dashes."""
        long = next(part for part in self.spellings if part.startswith("--"))
        return long.split("/")[0].removeprefix("--").replace("-", "_")


def option(
    default: Any,
    *spellings: str,
    help: str,
    group: str = "",
    parse: Callable[[Any], Any] | None = None,
    decides: bool = True,
    adds: bool = False,
    **more: Any,
) -> Any:
    """A field of `Settings`; `more` are arguments of `click.Option`."""
    declared = Declared(spellings, help, group, parse, decides, adds, more)
    return field(default=default, metadata={_DECLARED: declared})


class GroupedOption(click.Option):
    """An option with its group in the help."""

    def __init__(self, *args: Any, group: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class Settings:
    """A frozen dataclass whose fields are made by `option`, or are settings themselves."""

    @classmethod
    def _fields(cls) -> Iterator[tuple[dataclasses.Field[Any], Declared]]:
        """The fields of its own that are options."""
        for each in dataclasses.fields(cls):  # type: ignore[arg-type]
            if _DECLARED in each.metadata:
                yield each, each.metadata[_DECLARED]

    @classmethod
    def _parts(cls) -> Iterator[tuple[str, type[Settings]]]:
        """The fields that are settings."""
        for each in dataclasses.fields(cls):  # type: ignore[arg-type]
            if isinstance(each.default_factory, type) and issubclass(each.default_factory, Settings):
                yield each.name, each.default_factory

    @classmethod
    def options(cls) -> Iterator[click.Option]:
        """The options of the command line, those of parts included."""
        for each, declared in cls._fields():
            yield _click_option(each.name, each.default, declared)
        for _, part in cls._parts():
            yield from part.options()

    @classmethod
    def of_command(cls, values: dict[str, Any]) -> Self:
        """From what click found; takes the values out of `values`."""
        made: dict[str, Any] = {name: part.of_command(values) for name, part in cls._parts()}
        for each, declared in cls._fields():
            value = values.pop(each.name)
            if value is None or value == ():
                continue
            made[each.name] = declared.parse(value) if declared.parse else value
        return cls(**made)

    @classmethod
    def keywords(cls) -> list[str]:
        """Its keywords in Python, those of parts included."""
        own = [declared.keyword for _, declared in cls._fields()]
        return own + [name for _, part in cls._parts() for name in part.keywords()]

    @classmethod
    def of_keywords(cls, given: Mapping[str, Any], *, caller: str, without: Iterable[str] = ()) -> Self:
        """From keywords of Python: values as they are meant, or as text for the command line."""
        names = [name for name in cls.keywords() if name not in without]
        for name in given:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                meant = f" (did you mean {near[0]!r}?)" if near else ""
                known = ", ".join(sorted(names))
                raise TypeError(f"{caller}() has no keyword {name!r}{meant}; it takes {known}")
        made: dict[str, Any] = {
            name: part.of_keywords({k: v for k, v in given.items() if k in part.keywords()}, caller=caller)
            for name, part in cls._parts()
        }
        for each, declared in cls._fields():
            if given.get(declared.keyword) is not None:
                made[each.name] = _converted(given[declared.keyword], each, declared)
        return cls(**made)

    def request(self) -> dict[str, Any]:
        """What decides the products, by the names of fields; paths stand for the content of their files."""
        values = {each.name: _plain(getattr(self, each.name)) for each, own in self._fields() if own.decides}
        return values | {name: getattr(self, name).request() for name, _ in self._parts()}

    @classmethod
    def own_additions(cls) -> frozenset[str]:
        """Fields that add products but change no map that two commands make."""
        return frozenset(each.name for each, declared in cls._fields() if declared.adds)


def _plain(value: Any) -> Any:
    """The value with mappings in place of dataclasses."""
    if isinstance(value, tuple):
        return tuple(_plain(item) for item in value)
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    return dataclasses.asdict(value) if is_record else value


def _click_option(name: str, default: Any, declared: Declared) -> click.Option:
    more = dict(declared.click)
    pair = any("/" in spelling for spelling in declared.spellings)
    if isinstance(default, bool) and not pair and "type" not in more:
        more["is_flag"] = True
    if not (more.get("multiple") or more.get("required") or declared.parse):
        more.setdefault("default", default)
        more.setdefault("show_default", default is not None and (pair or not isinstance(default, bool)))
    return GroupedOption([*declared.spellings, name], help=declared.help, group=declared.group, **more)


def _converted(value: Any, each: dataclasses.Field[Any], declared: Declared) -> Any:
    """A keyword's value, checked as the command line would."""
    made = _click_option(each.name, each.default, declared)
    several = made.multiple and not isinstance(value, list | tuple)
    try:
        if made.is_flag and not isinstance(value, bool):
            raise click.BadParameter("expected True or False")
        if isinstance(value, str | int | float | Path) or several or made.multiple:
            value = made.type_cast_value(_NO_CONTEXT, [value] if several else value)
    except click.BadParameter as error:
        raise UsageError(f"--{declared.keyword.replace('_', '-')} {value!r}: {error.message}") from error
    text = isinstance(value, str) or (made.multiple and value and all(isinstance(v, str) for v in value))
    return declared.parse(value) if declared.parse and text else value


_NO_CONTEXT = click.Context(click.Command("python"))


def takes(**kinds: type[Settings]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of settings; it gets them by these names."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def wrapper(*args: Any, **values: Any) -> Any:
            made = {name: kind.of_command(values) for name, kind in kinds.items()}
            return command(*args, **values, **made)

        own: list[click.Parameter] = getattr(wrapper, "__click_params__", [])
        options = [each for kind in kinds.values() for each in kind.options()]
        wrapper.__click_params__ = [*own, *reversed(options)]  # type: ignore[attr-defined]
        return wrapper

    return decorate
