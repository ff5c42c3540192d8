"""Coverage of an audit: the lines of the code that spends which it has reached.

Of what it never ran an audit cannot speak. Lines of functions are watched while a `with` block lasts, by
`sys.monitoring` where Python has it and by a trace function elsewhere. Lines run when a module is imported
are not counted.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import pathlib
import sys
import threading
import types
from collections.abc import Iterator, Sequence
from typing import Any

PACKAGES = ("privacy", "mechanisms")
"""The packages that are watched: where counts meet noise, and what decides on it."""

_ROOT = pathlib.Path(__file__).parent.parent
_NAME = "pgmjax audit"


@dataclasses.dataclass(frozen=True)
class FileCoverage:
    """The lines of a file that were reached.

    Attributes:
        path: below the folder of the library.
        lines: how many lines its functions have that do something.
        reached: how many of them were run.
        unreached: the functions of which no line was run, with their classes.
    """

    path: str
    lines: int
    reached: int
    unreached: tuple[str, ...]

    @property
    def share(self) -> float:
        """The share of lines that were reached, 1 where there are none."""
        return self.reached / self.lines if self.lines else 1.0


class LineCoverage:
    """Notes which lines of some packages run, in all threads, while the `with` block lasts.

    Args:
        packages: below `pgmjax`, such as "privacy".

    Example:
        >>> from pgmjax.privacy import Budget
        >>> with LineCoverage(["privacy"]) as watch:
        ...     budget = Budget(1)
        >>> found = {each.path: each for each in watch.report()}
        >>> found["privacy/budget.py"].reached > 5, "Budget.charge" in found["privacy/budget.py"].unreached
        (True, True)
    """

    def __init__(self, packages: Sequence[str] = PACKAGES):
        paths = (path for name in packages for path in sorted((_ROOT / name).rglob("*.py")))
        self._files: dict[str, set[int]] = {str(path): set() for path in paths}
        self._left: dict[types.CodeType, set[int] | None] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> LineCoverage:
        self._stack.enter_context(_monitored(self) if sys.version_info >= (3, 12) else _traced(self))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def left(self, code: types.CodeType) -> set[int] | None:
        """Return the lines of a function that have not run yet; None if it is not watched."""
        if code not in self._left:
            watched = code.co_filename in self._files
            self._left[code] = {line for *_, line in code.co_lines() if line} if watched else None
        return self._left[code]

    def note(self, code: types.CodeType, line: int) -> None:
        """Note a line that runs."""
        self._files[code.co_filename].add(line)
        left = self._left.get(code)
        if left is not None:
            left.discard(line)

    def report(self) -> tuple[FileCoverage, ...]:
        """Return what was reached, by file."""
        return tuple(_of_file(pathlib.Path(path), lines) for path, lines in self._files.items())


@contextlib.contextmanager
def _traced(watch: LineCoverage) -> Iterator[None]:
    """Look at every line of the watched functions that has not run yet, by a trace function."""

    def line(frame: types.FrameType, event: str, _: Any) -> Any:
        if event == "line":
            watch.note(frame.f_code, frame.f_lineno)
            if not watch.left(frame.f_code):
                frame.f_trace_lines = False
        return line

    def call(frame: types.FrameType, event: str, _: Any) -> Any:
        if not watch.left(frame.f_code):
            return None
        watch.note(frame.f_code, frame.f_lineno)
        return line

    before, others = sys.gettrace(), threading.gettrace()
    threading.settrace(call)
    sys.settrace(call)
    try:
        yield
    finally:
        sys.settrace(before)
        threading.settrace(others)


@contextlib.contextmanager
def _monitored(watch: LineCoverage) -> Iterator[None]:
    """Look at every line once: what is watched no more costs nothing."""
    monitoring: Any = sys.monitoring  # type: ignore[attr-defined, unused-ignore]
    free = [number for number in range(6) if monitoring.get_tool(number) is None]
    if not free:
        raise RuntimeError("All tools of sys.monitoring are in use: end one, or leave the coverage out.")
    tool = 3 if 3 in free else free[0]

    def line(code: types.CodeType, number: int) -> Any:
        if watch.left(code) is not None:
            watch.note(code, number)
        return monitoring.DISABLE

    monitoring.use_tool_id(tool, _NAME)
    monitoring.register_callback(tool, monitoring.events.LINE, line)
    monitoring.set_events(tool, monitoring.events.LINE)
    monitoring.restart_events()
    try:
        yield
    finally:
        monitoring.set_events(tool, monitoring.events.NO_EVENTS)
        monitoring.free_tool_id(tool)


def _of_file(path: pathlib.Path, seen: set[int]) -> FileCoverage:
    text = path.read_text(encoding="utf-8")
    bare = set(map(_first_line, filter(_is_bare, ast.walk(ast.parse(text)))))
    lines: set[int] = set()
    unreached = []
    for name, code in _functions(compile(text, str(path), "exec"), ""):
        own = {line for *_, line in code.co_lines() if line and line > code.co_firstlineno}
        if code.co_firstlineno in bare or not own:
            continue
        lines |= own
        if not own & seen:
            unreached.append(name)
    place = path.relative_to(_ROOT).as_posix()
    return FileCoverage(place, len(lines), len(lines & seen), tuple(unreached))


def _is_bare(node: ast.AST) -> bool:
    """Return whether something is a function that only declares: a docstring, an ellipsis, or both."""
    return isinstance(node, ast.FunctionDef) and all(
        isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in node.body
    )


def _first_line(node: Any) -> int:
    return min(node.lineno, *(each.lineno for each in node.decorator_list), node.lineno)


def _functions(code: types.CodeType, prefix: str) -> Iterator[tuple[str, types.CodeType]]:
    """Yield the functions below a piece of code with their full names; lambdas are left out."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            called = f"{prefix}{inner.co_name}"
            is_class = "__module__" in inner.co_names and "__qualname__" in inner.co_names
            if not is_class and not inner.co_name.startswith("<"):
                yield called, inner
            yield from _functions(inner, f"{called}." if not inner.co_name.startswith("<") else prefix)
