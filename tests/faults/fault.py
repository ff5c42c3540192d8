"""What a seeded fault is."""

from typing import NamedTuple


class Fault(NamedTuple):
    """A small mistake that the tests must catch.

    Each was chosen by reading the source, as a reviewer would fear it, and not because some test is known to
    catch it.

    Attributes:
        name: what the library then does to its user, in one sentence; the fault goes by it.
        module: its dotted name.
        function: its qualified name; a class, or "" for the module, where the piece is in no function. If
            nothing has that name any more, the piece is looked for in all functions.
        old: a piece of source that stands once in the function; `trees` says how it is found.
        new: what comes in its place.
        tests: files or tests, of which one must fail.
    """

    name: str
    module: str
    function: str
    old: str
    new: str
    tests: tuple[str, ...]
