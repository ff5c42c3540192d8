"""Random mutants: every small change of an operator, a constant, an axis, a condition or a statement."""

import ast
import contextlib
import random
from typing import NamedTuple

import trees

OTHER = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
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
    ast.And: ast.Or,
    ast.Or: ast.And,
}
# what nobody computes with: messages, the words of objects, types
LEFT_OUT = (ast.Raise, ast.JoinedStr, ast.Assert, ast.AnnAssign, ast.Import, ast.ImportFrom)
WORDS = ("__repr__", "__str__", "_repr_html_")


class Mutant(NamedTuple):
    """A random mutant, and the text of its module."""

    module: str
    function: str
    line: int
    kind: str
    change: str
    text: str

    @property
    def name(self):
        return f"{self.module}:{self.line} {self.function}: {self.kind}, {self.change}"


def behaviour(node):
    """The nodes below one that say what the code does."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "msg"):
            continue
        for child in value if isinstance(value, list) else [value]:
            quiet = isinstance(child, LEFT_OUT) or getattr(child, "name", None) in WORDS
            if isinstance(child, ast.AST) and not quiet and not warns(child):
                yield node, field, child
                yield from behaviour(child)


def warns(node):
    called = node.value if isinstance(node, ast.Expr) else node
    return isinstance(called, ast.Call) and "warn" in ast.unparse(called.func)


def changes(parent, field, node):
    """The mutants of a node: pairs of a kind and the node in its place."""
    if type(node) in OTHER:
        yield "operator", OTHER[type(node)]()
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
        yield "operator", node.operand
    if isinstance(node, ast.Constant):
        axis = isinstance(parent, ast.keyword) and parent.arg in ("axis", "axes")
        if isinstance(node.value, bool):
            yield "constant", ast.Constant(not node.value)
        elif isinstance(node.value, int) and axis:
            yield "axis", ast.Constant(0 if node.value else -1)
        elif isinstance(node.value, int | float):
            other = node.value + 1 if isinstance(node.value, int) else node.value * 2 or 1.0
            yield "constant", ast.Constant(other)
    if field == "test":
        yield from (("condition", ast.Constant(value)) for value in (True, False))
    if isinstance(node, ast.Expr | ast.Assign | ast.AugAssign | ast.Continue) and not trees.is_any(node):
        yield "removed", ast.Pass()


def sites(tree):
    """All mutants of a module's tree: (function, line, kind, parent, node, what comes in its place)."""
    for definition, name in definitions(tree):
        for parent, field, node in behaviour(definition):
            line = getattr(node, "lineno", getattr(parent, "lineno", 0))
            for kind, other in changes(parent, field, node):
                yield name, line, kind, parent, node, other


def definitions(node, qualified=""):
    """The functions of a module and of its classes, with their qualified names."""
    for child in trees.children(node):
        name = f"{qualified}.{child.name}".lstrip(".")
        if isinstance(child, ast.ClassDef):
            yield from definitions(child, name)
        elif child.name not in WORDS:
            yield child, name


@contextlib.contextmanager
def put(parent, node, other):
    """Put another node in the place of one while the block runs."""
    for field, value in ast.iter_fields(parent):
        holder, key = (value, None) if isinstance(value, list) else (vars(parent), field)
        keys = range(len(value)) if key is None else [key]
        for place in (k for k in keys if holder[k] is node):
            holder[place] = other
            yield
            holder[place] = node
            return


def said(node):
    """A node in a few words."""
    if isinstance(node, ast.operator | ast.cmpop | ast.boolop):
        return type(node).__name__
    return ast.unparse(node).splitlines()[0][:60]


def drawn(files, number, seed):
    """Draw mutants of modules without replacement: (module, function, line, kind, change, changed text)."""
    trees_of = {module: trees.parse(path.read_text()) for module, path in files.items()}
    every = [(module, *site) for module, tree in trees_of.items() for site in sites(tree)]
    for module, function, line, kind, parent, node, other in random.Random(seed).sample(every, number):
        before = said(node)
        with put(parent, node, other):
            text = ast.unparse(ast.fix_missing_locations(trees_of[module]))
        yield Mutant(module, function, line, kind, f"{before} -> {said(other)}", text)
