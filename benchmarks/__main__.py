"""The one way to start a benchmark: python -m benchmarks [NAME [OPTION...]].

Without a name, all of them are listed. Those with data of their own take --data DIR or P3VAE_DATA.
"""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks() -> dict[str, str]:
    """First line of the docstring of every module and package here that has a `main`, by name."""
    found = {}
    for path in sorted([*HERE.glob("*.py"), *HERE.glob("*/__main__.py")]):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        if path.parent == HERE and path.stem.startswith("_"):
            continue
        if any(isinstance(node, ast.FunctionDef) and node.name == "main" for node in tree.body):
            name = path.parent.name if path.stem == "__main__" else path.stem
            found[name] = (ast.get_docstring(tree) or "").splitlines()[0]
    return found


def main() -> None:
    """List the benchmarks, or run one with the options that follow its name."""
    known, words = benchmarks(), sys.argv[1:]
    if not words or words[0] in ("-h", "--help"):
        print((__doc__ or "").strip(), end="\n\n")
        for name, line in known.items():
            print(f"  {name:20} {line}")
        return
    name = words[0]
    if name not in known:
        sys.exit(f"no benchmark is called {name!r}; there are {', '.join(known)}")
    sys.argv = [f"python -m benchmarks {name}", *words[1:]]
    package = (HERE / name).is_dir()
    import_module(f"benchmarks.{name}.__main__" if package else f"benchmarks.{name}").main()


if __name__ == "__main__":
    main()
