"""One-line mistakes that a source file could hold: a sign, a factor, a dropped term, an axis, a condition."""

from __future__ import annotations

import ast
import copy
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_OPERATORS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_CALLED = (
    *(("max", "min"), ("maximum", "minimum"), ("amax", "amin"), ("argmax", "argmin"), ("any", "all")),
    *(
        ("sum", "mean"),
        ("cos", "sin"),
        ("floor", "ceil"),
        ("zeros", "ones"),
        ("sqrt", "square"),
        ("std", "var"),
    ),
)
_READ = (("row", "col"), ("rows", "cols"), ("height", "width"), ("std", "mean"), ("left", "right"))
_CALLS, _FIELDS = (
    {one: other for pair in pairs for one, other in (pair, pair[::-1])} for pairs in (_CALLED, _READ)
)
_BUILTINS = ("max", "min", "any", "all")
_ADDITIVE = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_NOT_CODE = ("annotation", "returns", "decorator_list", "type_params")


@dataclass(frozen=True)
class Mutant:
    """A file with one line changed."""

    file: str
    line: int
    before: str
    """The line without indentation."""
    after: str

    def source(self, text: str) -> str | None:
        """The changed source; None when the line is gone. It is the nearest that reads `before`."""
        lines = text.split("\n")
        same = [number for number, line in enumerate(lines) if line.strip() == self.before]
        if not same:
            return None
        number = min(same, key=lambda found: abs(found + 1 - self.line))
        lines[number] = lines[number].replace(self.before, self.after)
        return "\n".join(lines)

    def parses(self, text: str) -> bool:
        """Whether the changed source is Python; part of a longer expression may not be."""
        try:
            ast.parse(self.source(text) or "")
        except SyntaxError:
            return False
        return True


def draw(files: list[Path], root: Path, count: int, seed: int) -> list[Mutant]:
    """Lines at random, each with one of its mistakes at random."""
    chance = random.Random(seed)
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for path in files:
        for mutant in mutants(path, root):
            by_line[mutant.file, mutant.line].append(mutant)
    lines = sorted(by_line)
    chance.shuffle(lines)
    found: list[Mutant] = []
    for file, line in lines:
        text = (root / file).read_text(encoding="utf-8")
        if len(found) < count and (whole := [each for each in by_line[file, line] if each.parses(text)]):
            found.append(chance.choice(whole))
    return found


def mutants(path: Path, root: Path) -> Iterator[Mutant]:
    """All mistakes of a file; not in annotations, errors, decorators and tables of numbers."""
    text = path.read_text(encoding="utf-8")
    lines = text.split("\n")
    module = ast.parse(text)
    module.body = [statement for statement in module.body if not _is_table(statement)]
    for node in _code(module):
        if node.lineno != node.end_lineno:
            continue
        line = lines[node.lineno - 1].encode()
        for changed in _mistakes(node):
            code = ast.unparse(ast.fix_missing_locations(changed))
            code = (
                f"({code})" if isinstance(changed, ast.BinOp | ast.BoolOp | ast.Compare | ast.IfExp) else code
            )
            after = (line[: node.col_offset] + code.encode() + line[node.end_col_offset :]).decode().strip()
            before = line.decode().strip()
            if after != before:
                yield Mutant(path.relative_to(root).as_posix(), node.lineno, before, after)


def _is_table(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    return isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Call | ast.Constant)


def _code(node: ast.AST) -> Iterator[ast.expr | ast.AugAssign]:
    if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
        return
    if isinstance(node, ast.expr | ast.AugAssign):
        yield node
    for name, value in ast.iter_fields(node):
        if name not in _NOT_CODE:
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _code(child)


def _mistakes(node: ast.expr | ast.AugAssign) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp():
            if type(node.op) in _OPERATORS:
                yield _with(node, op=_OPERATORS[type(node.op)]())
            if isinstance(node.op, _ADDITIVE):
                yield node.left
            if isinstance(node.op, ast.Add | ast.Mult):
                yield node.right
        case ast.AugAssign() if type(node.op) in _OPERATORS:
            yield _with(node, op=_OPERATORS[type(node.op)]())
        case ast.Compare(ops=[op]):
            yield _with(node, ops=[_OPERATORS[type(op)]()])
            if type(op) in _TURNED:
                yield _with(node, ops=[_TURNED[type(op)]()])
        case ast.BoolOp():
            yield _with(node, op=_OPERATORS[type(node.op)]())
            yield node.values[0]
        case ast.UnaryOp():
            yield node.operand
        case ast.IfExp():
            yield _with(node, body=node.orelse, orelse=node.body)
        case ast.Constant(value=bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield ast.Constant(node.value + 1)
            yield ast.Constant(node.value - 1 if node.value else -1)
        case ast.Constant(value=float()):
            yield ast.Constant(2.0 * node.value if node.value else 1.0)
        case ast.Attribute() if node.attr in _FIELDS:
            yield _with(node, attr=_FIELDS[node.attr])
        case ast.Call():
            yield from _other_calls(node)


def _other_calls(node: ast.Call) -> Iterator[ast.AST]:
    """Another function, or without the last option."""
    function = node.func
    if isinstance(function, ast.Name) and function.id in _BUILTINS:
        yield _with(node, func=ast.Name(_CALLS[function.id]))
    if isinstance(function, ast.Attribute) and function.attr in _CALLS:
        yield _with(node, func=_with(function, attr=_CALLS[function.attr]))
    if node.keywords and node.keywords[-1].arg:
        yield _with(node, keywords=node.keywords[:-1])


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
