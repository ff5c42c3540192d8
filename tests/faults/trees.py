"""Finds a small piece of source in a function's syntax tree, whatever its local names, and changes it.

A piece is an expression or a run of statements. Layout, comments and docstrings play no part; the names that
the function binds may be called otherwise; `...` as a body stands for any body, and in the new piece for what
it stood for.
"""

import ast
import builtins
import copy
import dataclasses

NAMES = {
    ast.Name: "id",
    ast.arg: "arg",
    ast.FunctionDef: "name",
    ast.ClassDef: "name",
    ast.ExceptHandler: "name",
    ast.alias: "asname",
    ast.MatchAs: "name",
}
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class PlaceError(ValueError):
    """A piece that is not there once, or leaves a function as it is."""


@dataclasses.dataclass
class Match:
    """Where a piece was found: `parent.field`, from `start` to `stop` if that is a list.

    Attributes:
        names: the function's name for each name of the piece.
        bodies: what each `...` of the piece stands for.
    """

    parent: ast.AST
    field: str
    start: int | None = None
    stop: int | None = None
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    bodies: list[list[ast.stmt]] = dataclasses.field(default_factory=list)


def is_any(node):
    """Whether a statement is `...`."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def without_docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (*DEFINITIONS, ast.Module)) and ast.get_docstring(node, clean=False) is not None:
            body[:1] = [] if len(body) > 1 else [ast.Pass()]
    return tree


def parse(text):
    """A module's tree."""
    return without_docstrings(ast.parse(text))


def pieces(old, new):
    """Both pieces in the same kind: two expressions, or two lists of statements."""
    both = [parse(text).body for text in (old, new)]
    if all(len(body) == 1 and isinstance(body[0], ast.Expr) and not is_any(body[0]) for body in both):
        return both[0][0].value, both[1][0].value
    return both[0], both[1] or [ast.Pass()]


def functions(tree, name):
    """The functions or the class of a qualified name (a property has several); the module for no name."""
    found = [tree]
    for part in filter(None, name.split(".")):
        inside = [node for each in found for node in ast.walk(each) if isinstance(node, DEFINITIONS)]
        direct = {id(child) for each in found for child in children(each)}
        found = [node for node in inside if node.name == part and id(node) in direct]
    return found


def children(node):
    """The definitions right inside one, under an `if` or not."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, DEFINITIONS):
            yield child
        else:
            yield from children(child)


def bound_names(tree):
    """All names that a tree binds anywhere."""
    inside = [node for node in ast.walk(tree) if type(node) in NAMES]
    bound = (n for n in inside if not isinstance(n, ast.Name) or isinstance(n.ctx, ast.Store))
    named = {getattr(node, NAMES[type(node)]) or getattr(node, "name", None) for node in bound}
    return named | set(dir(builtins))


def local_names(function):
    """The names that a function binds, and those that functions in it do."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return frozenset()
    return bound_names(ast.Module([function.args, *function.body], [])) - set(dir(builtins))


def same(piece, node, known, match):
    """Whether a piece is a node under the names found so far, which it adds to."""
    if isinstance(piece, list):
        if isinstance(node, list) and len(piece) == 1 and node and is_any(piece[0]):
            match.bodies.append(node)
            return True
        alike = isinstance(node, list) and len(piece) == len(node)
        return alike and all(same(p, n, known, match) for p, n in zip(piece, node, strict=True))
    if not isinstance(piece, ast.AST):
        return type(piece) is type(node) and piece == node
    if type(piece) is not type(node):
        return False
    name = NAMES.get(type(piece))
    for field in piece._fields:
        one, other = getattr(piece, field, None), getattr(node, field, None)
        if field == name and one is not None and other is not None:
            if not same_name(one, other, known, match.names):
                return False
        elif not same(one, other, known, match):
            return False
    return True


def same_name(one, other, known, names):
    if one in names:
        return names[one] == other
    if other in names.values() or (one != other and other not in known):
        return False
    names[one] = other
    return True


def matches(tree, function, piece):
    """Each place in a function where a piece stands."""
    found = {}
    anywhere = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for root in functions(tree, function) or anywhere:  # one with another name holds the piece all the same
        known = local_names(root)
        holder = ast.Module([root], []) if root is not tree else tree
        for parent in ast.walk(holder):
            for match in at(parent, piece, known):
                found.setdefault((id(match.parent), match.field, match.start), in_tree(match, holder, tree))
    return list(found.values())


def in_tree(match, holder, tree):
    """A match of the whole definition, moved to where the definition stands in the module."""
    if match.parent is holder and holder is not tree:
        for parent in ast.walk(tree):
            for field, value in ast.iter_fields(parent):
                if isinstance(value, list) and any(each is holder.body[0] for each in value):
                    start = next(k for k, each in enumerate(value) if each is holder.body[0])
                    return dataclasses.replace(match, parent=parent, field=field, start=start, stop=start + 1)
    return match


def at(parent, piece, known):
    """The matches of a piece right below a node."""
    for field, value in ast.iter_fields(parent):
        values = value if isinstance(value, list) else [value]
        width = len(piece) if isinstance(piece, list) else 1
        for start in range(len(values) - width + 1):
            place = (start, start + width) if isinstance(value, list) else (None, None)
            match = Match(parent, field, *place)
            wanted = piece if isinstance(piece, list) else [piece]
            if isinstance(piece, list) and not isinstance(value, list):
                continue
            there = values[start : start + width]
            if all(same(p, n, known, match) for p, n in zip(wanted, there, strict=True)):
                yield match


class Renamed(ast.NodeTransformer):
    """A new piece in the function's own names, with the bodies that `...` stood for."""

    def __init__(self, match):
        self.names, self.bodies = match.names, iter(match.bodies)

    def generic_visit(self, node):
        super().generic_visit(node)
        field = NAMES.get(type(node))
        if field and getattr(node, field) in self.names:
            setattr(node, field, self.names[getattr(node, field)])
        return node

    def visit_Expr(self, node):
        return next(self.bodies, node) if is_any(node) else self.generic_visit(node)


def changed(text, function, old, new):
    """The text of a module with the new piece in the old one's place.

    Raises:
        PlaceError: the old piece stands not once in the function, or the new one changes nothing.
    """
    tree = parse(text)
    before = ast.unparse(tree)
    piece, other = pieces(old, new)
    found = matches(tree, function, piece)
    if len(found) != 1:
        where = f"the function {function}" if functions(tree, function) else "all functions"
        raise PlaceError(f"the piece stands {len(found)} times in {where}, not once:\n{old}")
    (match,) = found
    other = [copy.deepcopy(each) for each in other] if isinstance(other, list) else copy.deepcopy(other)
    if isinstance(other, list):
        put = Renamed(match).visit(ast.Module(other, [])).body
    else:
        put = [Renamed(match).visit(other)]
    if match.start is None:
        setattr(match.parent, match.field, put[0])
    else:
        getattr(match.parent, match.field)[match.start : match.stop] = put
    used = {node.id for each in put for node in ast.walk(each) if isinstance(node, ast.Name)}
    if unknown := used - bound_names(tree):
        raise PlaceError(
            f"the new piece uses {sorted(unknown)}, which nothing in the module is called:\n{new}"
        )
    after = ast.unparse(ast.fix_missing_locations(tree))
    if before == after:
        raise PlaceError(f"the new piece changes nothing:\n{new}")
    return after
