"""Which tests are close to a file: those that import it, of its folder, and of commands that reach it."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {
    "p3vae_cli": "p3vae.cli",
    "models": "p3vae.models",
    "physics": "p3vae.physics",
    "paper": "p3vae.paper",
}
OWN, FEW = 3, 8
"""Test files that run first of those that import the module, and of those that reach it by a command."""


@functools.cache
def closest_tests(file: str) -> list[list[str]]:
    """Tests of the module, of its folder, and of commands that import it, the most particular first."""
    module, path = _module(ROOT / file), Path(file)
    folder = (
        ROOT / "tests" / (Path("cli", *path.parts[1:-1]) if path.parts[0] == "p3vae_cli" else path.parent)
    )
    while not folder.is_dir():
        folder = folder.parent
    every = sorted((ROOT / "tests").rglob("test_*.py"))
    reached = {test: _commands(test) for test in every}
    near = [t for t in every if t.is_relative_to(folder)]
    own = [t for t in every if module in _imports(t) or t.stem == f"test_{path.stem}"]
    own.sort(key=lambda test: test not in near)
    tops = {"cli", "models", "paper"}
    using = [t for t in every if module in _closure(t) and tops & set(t.relative_to(ROOT).parts[1:2])]
    calling = [t for t in every if any(module in _closure(command) for command in reached[t])]
    words = {word for part in path.with_suffix("").parts for word in part.split("_")}
    words = {word for part in path.with_suffix("").parts for word in part.split("_")}

    def particular(test: Path) -> tuple[bool, int]:
        return not words & {*test.stem.split("_")}, len(reached[test])

    calling.sort(key=particular)
    few = calling if len(calling) <= FEW else []
    seen: set[Path] = set()
    stages = []
    for stage in (
        own[:OWN],
        few,
        own[OWN:] + near,
        calling[:FEW],
        [*calling, *sorted(using, key=particular)],
    ):
        stages.append(
            [test.relative_to(ROOT).as_posix() for test in dict.fromkeys(stage) if test not in seen]
        )
        seen |= {*stage}
    return stages


def _module(path: Path) -> str:
    folder, *inner = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([FOLDERS.get(folder, folder), *inner]).removesuffix(".__init__")


@functools.cache
def _imports(path: Path) -> frozenset[str]:
    """Modules that a file imports, anywhere in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names)


@functools.cache
def _modules() -> dict[str, Path]:
    return {_module(path): path for path in sources([*FOLDERS, "tests"])}


@functools.cache
def _closure(path: Path) -> frozenset[str]:
    """Modules that a file imports, and those that these import."""
    seen: set[str] = set()
    ahead = [path]
    while ahead:
        new = (_imports(ahead.pop()) & _modules().keys()) - seen
        seen |= new
        ahead += [_modules()[name] for name in new]
    return frozenset(seen)


@functools.cache
def _commands(test: Path) -> frozenset[Path]:
    """Files of the commands that a test names."""
    words = {node.value for node in ast.walk(ast.parse(test.read_text())) if isinstance(node, ast.Constant)}
    files = (ROOT / "p3vae_cli" / "commands").glob("*.py")
    return frozenset(file for file in files if file.stem.replace("_", "-") in words)


def sources(paths: Iterable[str]) -> Iterator[Path]:
    """Python files of files and folders, without data."""
    for path in map(ROOT.joinpath, paths):
        found = [path] if path.is_file() else path.rglob("*.py")
        yield from (each for each in found if "data" not in each.parts)
