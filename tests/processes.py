"""Which tests start other processes, found by reading them: `make quick` leaves these out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import pytest

TESTS = Path(__file__).parent
NAMES = {"subprocess", "multiprocessing", "distributed", "fork"}
OPTIONS = {"-j", "--jobs", "--scheduler"}
"""Of the program, by which it starts some."""


def starts_processes(test: pytest.Function) -> bool:
    """Whether a test, its fixtures, or helpers that these call use such a name or option."""
    fixtures = test._fixtureinfo.name2fixturedefs.values()
    functions = [test.function, *(each.func for found in fixtures for each in found)]
    parameters = {str(value) for value in getattr(test, "callspec", test).__dict__.get("params", {}).values()}
    words = {word for function in functions for word in _words(function, set())}
    return bool((words | parameters) & (NAMES | OPTIONS))


def _words(function: object, seen: set[FunctionType]) -> Iterator[str]:
    """Names and strings in a function of the tests and in those that it calls; a module by its first name."""
    if not isinstance(function, FunctionType) or function in seen:
        return
    if not Path(function.__code__.co_filename).is_relative_to(TESTS):
        yield function.__module__.partition(".")[0]
        return
    seen.add(function)
    for word in _of_code(function.__code__):
        yield word
        meant = function.__globals__.get(word)
        if isinstance(meant, ModuleType):
            yield meant.__name__.partition(".")[0]
        yield from _words(getattr(meant, "__wrapped__", meant), seen)


def _of_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        for each in constant if isinstance(constant, tuple) else (constant,):
            if isinstance(each, str):
                yield each
            elif isinstance(each, CodeType):
                yield from _of_code(each)
