"""Messages of the library in the words of the command line, with the option that each is about."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping, Sequence

from pgmjax._internal import checks
from pgmjax.cli.options.command import below

OTHER_NAMES = {
    "seed": "--insecure-seed",
    "max_steps": "--steps",
    "prior": "--from",
    "text_encoding": "--encoding",
    "delta": "--beta",
}
"""Options of another name than the argument in Python that they fill."""
PHRASES = {
    "or pass total= where": "or give --total N where",
    "encoding must be that of a text file": "--text-encoding must be that of a text file",
    ", a Solver, got": ", got",
    "header=False": "--no-header",
    "biased=True": "--biased",
    "give scale=(1, 5), its ends": "give --scale 1,5, its ends",
    "weights need max_weight, the largest": "--weights needs --max-weight, the largest",
    "weights, the name of a column, and": "--weights, the name of a column, and",
    "or pass total=.": "or give --total N.",
    "or pass stddev=": "or give --stddev S",
    "or rounded_to= where": "or --rounded-to N where",
    "or set max_bytes": "or give --max-cells N, or --all-kway a smaller K",
    "fit an approximate model: Estimator(approximate=True)": "fit an approximate model: --approximate",
    "or the relation add-remove": "or --relation add-remove",
    ', or row_order="table" if that order is public': "",
    "none of the lists of universe": "none of the --groups",
    "universe lists": "--groups name",
    "use Ridge.fit": "use --method ridge with --alpha",
    "targets cannot": "queries cannot",
    "of target": "of query",
    "Of target": "Of query",
    "Dataset.read(path, domain) reads it.": "It stands before the domain file.",
    "orrect the domain or the table": (
        "orrect the domain or the table (pgmjax domain check TABLE DOMAIN shows more)"
    ),
    ", or Mechanism.run(discover=...) on an OpenTable": "",
    " (a frame does not say it: its types follow from its values)": "",
    ", or Ledger.register": "",
    ", Ledger.register": "",
    ", or Ledger.add_version": "",
    ", Ledger.add_version": "",
    ", or other_people=True": "",
    ", or comes from a source of your own: leave it out.": ": leave it out.",
    "made for research (research=True)": "made by pgmjax ledger init --research",
    ", or account= in Python, and": ", and",
    ", or Session.open in Python": "",
    ", or a Learner, got": ", got",
    ", or an object.": ".",
}
"""What is said otherwise in Python; an option in it counts only if the command has it."""
_WAYS = re.compile(r", or say what happens to such records: (?:--rows-outside|rows_outside) [^.]*\.")
_MISFITS = re.compile(r"Attribute '[^']*': ([\d,]+) row")
_NO_DROP = {
    r'((?:--rows-outside|rows_outside) "\w+"(?:, "\w+")*) or "drop"(?=\.)': r"\1",
    r', or say what happens to such records: (?:--rows-outside|rows_outside) "drop"(?=\.)': "",
    r' Such records are left out by (?:--rows-outside|rows_outside) "drop"\.': "",
}
"""Advice that makes the number of records private, and what is left of it."""
_LISTED = re.compile(r'--[\w-]+ "[\w-]+"(?:(?:, | or |, or )"[\w-]+")*')
_ADVICE = "|".join(f"(?<={word} )" for word in ("raise", "lower", "give", "set", "pass", "out", "or"))
_BEHIND = r"(?=[,:] | (?:already|is|must|has|cannot)\b)"
"""What stands behind a name that a message begins with."""
_NUMBER = re.compile(r"[-+.\de]+|nan|inf")


def as_typed(
    message: str, parser: argparse.ArgumentParser, argv: Sequence[str], *, refused: bool = True
) -> str:
    """Return a message of the library with the options of the command in place of Python's arguments.

    A refusal that names no option is put behind the one whose value it quotes.

    Args:
        message: what went wrong.
        parser: of all commands.
        argv: the command line.
        refused: whether something in the command line is wrong; else something failed.

    Example:
        >>> from pgmjax.cli import _parser
        >>> as_typed("max_cells must be an integer >= 1, got 0.", _parser(), ["release", "--max-cells", "0"])
        '--max-cells must be an integer >= 1, got 0.'
        >>> as_typed("There is no ledger no.db: make one.", _parser(), ["ledger", "show", "no.db"])
        'There is no ledger no.db: make one.'
    """
    words = list(argv)
    command = _command(parser, words)
    known = command._option_string_actions
    if "--rows-outside" not in known:
        message = _WAYS.sub(".", message)
    elif "--no-header" in words and _WAYS.search(message):
        named = "If the first line holds names, leave out --no-header."
        once = {*_MISFITS.findall(message)} == {"1"}  # as a line of names is, in each column
        message = f"{named} {message}" if once else f"{message} {named}"
    if "replace-one" in words:
        for advice, left in _NO_DROP.items():
            message = re.sub(advice, left, message)
    for phrase, other in PHRASES.items():
        here = "pgmjax " not in other  # else its options are of another command
        if all(option in known for option in re.findall(r"--[\w-]+", other) if here):
            message = message.replace(phrase, other)
    given = list(_given(known, words))
    typed = {option for option, _ in given}
    for name, option in _names(known):
        message = _renamed(message, name, option, option in typed)
    for option in ("--encoding", "--text-encoding"):
        if option in known and known[option].dest == "text_encoding":
            message = re.sub('give encoding="([\\w-]+)"', rf"give {option} \1", message)
    if "--option" in known:  # what else has a value in Python is a setting of the mechanism
        message = re.sub(r'(?<![\w-])([a-z_]+)="([\w-]+)"', r"--option \1=\2", message)
    message = _LISTED.sub(lambda found: found[0].replace('"', ""), message)
    message = re.sub(r"(--[\w-]+(?: [\w-]+)?) \(\1\)", r"\1", message)
    if not refused or any(
        re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", message) for option, _ in given
    ):
        return message
    return _behind_its_option(message, known, words, given)


def _behind_its_option(
    message: str, known: Mapping[str, argparse.Action], words: list[str], given: list[tuple[str, str]]
) -> str:
    """Return a message behind the option whose value it is about, if that is known."""
    # of a word that stands in two places it is not known which is meant
    quoted = [
        (option, value)
        for option, value in given
        if words.count(value) < 2
        and _quotes(message, value)
        and not getattr(known.get(option), "choices", None)
    ]
    column = re.match(r"(?:Attribute|Column) '([^']*)'", message)
    if not quoted or (column and column[1] not in [value for _, value in quoted]):
        return message  # of a column, whatever else it quotes
    came = message.rpartition(" got ")[2] if " got " in message else ""
    said = [pair for pair in quoted if _quotes(came, pair[1]) or _begins(message, pair[1])]
    # a word may stand in any sentence; what has a dot, a stroke or a space is about what was typed
    quoted = said or [pair for pair in quoted if re.search(r"[^\w-]", pair[1])]
    if not quoted:
        return message
    option, value = max(quoted, key=lambda pair: len(pair[1]))
    begun = re.match(rf"(?:Domain file )?{re.escape(value)}{_BEHIND}", message)
    return f"{option} {value}{message[begun.end() :] if begun else f': {message}'}"


def of_file(path: object, error: object) -> str:
    """Return a message with the file that it is about in front, unless it begins with that."""
    return str(error) if str(error).startswith(str(path)) else f"{path}: {error}"


def _command(parser: argparse.ArgumentParser, words: list[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that some words begin with, and take its name from them."""
    commands = below(parser)
    name = next((word for word in words if word in commands), None)
    if name is None:
        return parser
    words.remove(name)
    return _command(commands[name], words)


def _names(known: Mapping[str, argparse.Action]) -> Iterator[tuple[str, str]]:
    """Yield Python's name of each option of a command, with the option."""
    for name, option in OTHER_NAMES.items():
        if option in known:
            yield name, option
    for option, action in known.items():
        if (
            option.startswith("--")
            and action.nargs != 0
            and option.lstrip("-").replace("-", "_") == action.dest
        ):
            yield action.dest, option


def _renamed(message: str, name: str, option: str, typed: bool) -> str:
    """Return a message with an argument's name as an option, where it is one and no word of a sentence."""
    value = r"""=(?:"([\w-]+)"|'([\w-]+)')"""
    message = re.sub(rf"(?<![\w-]){name}{value}", lambda found: f"{option} {found[1] or found[2]}", message)
    if "_" in name:  # in advice also where it was not typed; else it may be a column of a file
        message = re.sub(rf'(?<![\w-]){name}(?= ")', option, message)
        before = r"(?<![\w-])" if typed else rf"(?:{_ADVICE})"
        return re.sub(rf"{before}{name}(?![\w=])", option, message)
    if not typed:
        return message
    message = re.sub(rf"(?<![\w-]){name}(?= must\b)", option, message)
    return re.sub(rf"(^|: ){name}(?= (?:is|lies|cannot|needs|has)\b)", rf"\g<1>{option}", message)


def _given(known: Mapping[str, argparse.Action], words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line with each of their values."""
    option = None
    for word in words:
        name, equals, value = word.partition("=")
        if name in known or (name.startswith("--") and len(name) > 2):
            option = checks.same_word(name, known) or name
            if equals:
                yield option, value
            if equals or (option in known and known[option].nargs == 0):
                option = None
        elif option is not None:
            yield option, word
            if option in known and known[option].nargs is None:
                option = None  # what stands behind its value has a place of its own


def _begins(message: str, value: str) -> bool:
    """Return whether a message begins with a value, or says that there is nothing of that name."""
    before = r"(?:^(?:Domain file |Unknown attribute ')?|\bno \w+ (?:file )?'?|\bof account ')"
    return re.search(rf"{before}{re.escape(value)}(?!\w)", message) is not None


def _quotes(message: str, value: str) -> bool:
    """Return whether a message is about a value: a number only behind what may have such a name."""
    if not value.strip():
        return False
    before = r"(?:^|/|['\"]|(?:got|file|folder|ledger|table) )" if _NUMBER.fullmatch(value) else r"(?<![\w.])"
    return re.search(rf"{before}{re.escape(value)}(?!\w|\.\w)", message) is not None
