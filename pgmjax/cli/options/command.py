"""Commands and their options as data, and the parser that is made of them."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Option:
    """An option, or an argument without a name of its own; see `argparse.ArgumentParser.add_argument`."""

    names: tuple[str, ...]
    settings: dict[str, Any]

    def add_to(self, parser: Any) -> None:
        """Add it to a parser or to a group of its options."""
        parser.add_argument(*self.names, **self.settings)


@dataclasses.dataclass(frozen=True)
class OptionGroup:
    """Options under a title, or of which one is given at most.

    Attributes:
        options: all of them.
        title: None for options that exclude one another.
        required: whether one of these must be given.
    """

    options: tuple[Option, ...]
    title: str | None
    required: bool = False

    def add_to(self, parser: argparse.ArgumentParser) -> None:
        """Add the options to a parser."""
        group = (
            parser.add_mutually_exclusive_group(required=self.required)
            if self.title is None
            else parser.add_argument_group(self.title)
        )
        for each in self.options:
            each.add_to(group)


@dataclasses.dataclass(frozen=True)
class Command:
    """A command.

    Attributes:
        name: what is typed.
        help: what it does, for a list of commands.
        description: the same in a few sentences.
        example: what to type.
        options: in the order of its help.
        parts: the commands below it.
        notes: what else its help says, above the example.
        run: the function that runs it, "module:function" in `pgmjax.cli`; "" if only its parts can be run.
    """

    name: str
    help: str
    description: str
    example: str | None = None
    options: tuple[Option | OptionGroup, ...] = ()
    parts: tuple[Command, ...] = ()
    notes: str = ""
    run: str = ""

    def add_to(self, commands: Any) -> None:
        """Add the command to a parser's subcommands."""
        epilog = None if self.example is None else f"{self.notes}Example: {self.example}"
        parser = commands.add_parser(self.name, help=self.help, description=self.description, epilog=epilog)
        for each in self.options:
            each.add_to(parser)
        if self.parts:
            needed = not self.run
            metavar = "COMMAND" if needed else "[COMMAND]"
            below = parser.add_subparsers(title="commands", required=needed, metavar=metavar)
            for part in self.parts:
                part.add_to(below)
        if self.run:
            parser.set_defaults(run=self.run, parser=parser)


def below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the commands below one, by name."""
    parts = [each.choices for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(parts[0]) if parts else {}


def option(*names: str, **settings: Any) -> Option:
    """Return an option with the settings that `argparse` takes."""
    return Option(names, settings)


def group(title: str, *options: Option) -> OptionGroup:
    """Return options under a title."""
    return OptionGroup(options, title)


def one_of(*options: Option, required: bool = False) -> OptionGroup:
    """Return options that exclude one another."""
    return OptionGroup(options, None, required)
