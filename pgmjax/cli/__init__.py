"""The command `pgmjax`: release a table under differential privacy, and query the release.

Each module is a command. The exceptions are `options` (the options of all commands), `typed` (messages in the
words of the command line) and `process` (signals and standard streams).

Exit codes: 0 done, 1 failed (not because of the input), 2 bad input or usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import difflib
import importlib
import io
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from pgmjax._internal import checks
from pgmjax._internal.migration import ARGUMENTS
from pgmjax._version import __version__
from pgmjax.cli import options, process
from pgmjax.cli.options.command import below
from pgmjax.cli.typed import as_typed

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 128 + signal.SIGINT
_MOST_LINES = 3
_NEGATIVE = re.compile(r"-\.?[0-9].*")
"""What is a value and no option, such as -1e-9."""
_NEEDED = {
    "--epsilon": "(the privacy budget, such as 1)",
    "--relation": "(add-remove if the number of records is secret, replace-one if it is public; elsewhere "
    "these are called unbounded and bounded)",
    "--all-kway": "(how many attributes a marginal has, such as 2; chosen marginals stand in a --workload "
    "FILE)",
    "--out": "(the folder to make)",
    "--protect": "(record: all ratings of a record; rating: one of them)",
    "--beta": "(the chance that the answer misses, such as 0.05)",
    "--half-width": "(how far the answer may be off, in records, such as 50)",
    "--domain": "(the domain file, .yaml or .json; pgmjax domain draft begins one)",
    "--records": "(how many records there are, such as 1000, or a guess; no table is read)",
    "--error-bars": "(how standard errors are found; every interval is of 95 %)",
    "--mechanism": "(pgmjax mechanisms describes each)",
    "--rows": "(left out, as many rows as records are estimated)",
    "--tables": "(how many, such as 20; the folder stands before it: pgmjax release DIR --tables 20)",
    "--devices": "(how many; which kind JAX chooses, see docs/gpu.md)",
}
"""What an option is, for errors about its value or its absence."""
_NEEDED_BY: Mapping[str, Mapping[str, str]] = {
    "similarities": {
        "--records": "(how many records were rated; they are numbered from 0, and their number is public)",
        "--items": "(how many items there are, numbered from 0, rated or not; public)",
    },
}
"""The same of the options of one command."""
_NO_SEED = (
    ". Noise that protects has no seed. For research there is --insecure-seed N; its release protects nobody"
)


def _each(table: Mapping[str, str]) -> dict[str, str]:
    """Return what a table says of several words together, by word."""
    return {word: said for words, said in table.items() for word in words.split()}


_ADVICE: Mapping[str, Mapping[str, str]] = {
    "release": _each(
        {
            "marginals marginal cliques pairs": (
                'Name marginals in a file: --workload FILE, [["age", "sex"]], or take all pairs: --all-kway 2'
            ),
            "columns cols attributes features select drop exclude": (
                "The domain file chooses the columns: leave the others out of it"
            ),
            "format output-format csv type": "Rows are written as --synthetic csv",
            "kway k ways degree": "Did you mean --all-kway?",
            "sample": "Rows are drawn with the release, --rows N of them; more of a release: --add-rows N",
            "noise sigma scale sensitivity rho": (
                "Noise follows from --epsilon, --delta and what is measured"
            ),
            "timeout time-limit": "A smaller model takes less time: --max-cells N",
            "lr learning-rate optimizer": "Did you mean --solver?",
        }
    ),
    "query": _each(
        {
            "domain": "The release holds its domain",
            "epsilon delta budget relation": "Queries of a release cost nothing",
            "out output csv": "Answers are printed: put > FILE behind them, or --json",
            "columns list attributes schema": "pgmjax query DIR alone names the attributes",
            "confidence ci level conf-level alpha": "Every interval is of 95 %",
            "where filter sql query condition select": (
                "Conditions stand behind DIR: pgmjax query DIR 'sex=F,age<30'"
            ),
            "group-by groupby by count counts table": "Counts of groups: --marginal age,sex",
            "mean sum median average": "They follow from the counts of --marginal NAME",
        }
    ),
    "session ask": {
        "epsilon": (
            "An answer costs what its --half-width needs; --cap is the most that the whole session may spend"
        ),
        "delta": (
            "Answers have no delta of privacy; the probability that the exact count is further away is --beta"
        ),
    },
    "perturb": _each(
        {
            "all-kway marginals kway": "What is perturbed say --each, --groups NAMES or --workload FILE",
            "delta": "Responses are pure: leave it out",
        }
    ),
    "respond": _each(
        {
            "delta": "A response is pure: leave it out",
            "relation": "A response is always under replace-one: leave it out",
        }
    ),
    "domain draft": {"domain": "The file that is written goes behind --out"},
    "domain schema": _each({"out output": "It is printed: pgmjax domain schema > schema.json"}),
    "fit": _each(
        {
            "epsilon delta relation budget noise": "No noise is added here: --stddev says how much there is",
            "scale b": "--stddev is the standard deviation: of Laplace noise that is 1.414 times its scale, "
            "so of scale 5 it is --stddev 7.07",
        }
    ),
    "look": {"domain": "The release holds its domain"},
    "": _each(
        {
            "force overwrite replace clobber yes": (
                "Nothing that exists is written over: give a new --out, or remove what is there"
            ),
            "device gpu cuda use-gpu backend platform tpu": (
                "JAX chooses the device, a card if it is installed for one; JAX_PLATFORMS=cpu before the "
                "command keeps to the processor (docs/gpu.md)"
            ),
            "threads jobs n-jobs workers num-workers cores": (
                "All cores are used; taskset -c 0-3 before the command keeps to four"
            ),
            "sep delimiter separator skiprows sheet sheet-name index-col quotechar": (
                "Leave it out: commas, semicolons, tabs and sheets are told apart, and the line of the names "
                "is found by the names in the domain"
            ),
            "decimal thousands na na-values null-values dtype": (
                "How values are written says the domain file, by decimal, thousands, missing or labels "
                "of a column"
            ),
            "bounds lower upper min max ranges": (
                "The ends of a column stand in the domain file, as age: {min: 0, max: 99}"
            ),
            "verbose debug log-level v": "Everything is told without an option",
        }
    ),
}
"""What to do instead of options that other programs have, by command; "" of all that have no such option."""
_OPTIONS_OF_OTHERS: Mapping[str, str] = _each(
    {
        "output o dest output-dir outdir output-path save-to": "--out",
        "num-samples sample-size n-samples num-rows n-rows nrows n size samples": "--rows",
        "synthesizer model algorithm mech": "--mechanism",
        "metadata schema": "--domain",
        "neighbours neighbors neighbouring neighboring adjacency": "--relation",
        "id primary-key user-id person privacy-unit entity": "--unit",
        "max-contributions max-ids contributions contribution-bound": "--max-records",
        "epochs iterations max-iter iters niter": "--steps",
        "max-model-size memory max-size": "--max-cells",
        "budget eps privacy-budget": "--epsilon",
        "preprocessor-eps": "--discover",
    }
)
"""Options by their names elsewhere."""
_CHOICES_OF_OTHERS: Mapping[str, str] = _each(
    {
        "bounded substitution substitute substitute-one change-one swap replace": "replace-one",
        "ignore skip exclude omit": "drop",
        "clamp clipped truncate": "clip",
        "na nan null none": "missing",
        "sample sampling": "multinomial",
        "excel xlsx tsv": "csv",
        "rdp": "renyi",
        "cdp rho": "zcdp",
        "unbounded add remove add-or-remove insert-delete symmetric symmetric-difference": "add-remove",
    }
)
"""The choices here by their names elsewhere."""
_NOISE = "laplace laplacian gaussian gauss normal geometric exponential discrete-gaussian discrete-laplace"
"""Words for noise, which is chosen by no option."""
_TAKES_NAMES: Mapping[str, str] = {
    "--groups": "Names of one group are joined by commas, as in --groups age,sex; another stands behind "
    "a --groups of its own",
    "--marginal": "Names of one marginal are joined by commas, as in --marginal age,sex",
}
"""What stands behind an option that takes names joined by commas."""
_TAKES_NO_NAME: Mapping[str, str] = {
    "ledger show": "The name of an account goes behind --name",
    "session status": "The name of a session goes behind --name",
    "session export": "The name of a session goes behind --name",
    "session ask": "One count is asked at a time; conditions of one count are joined by commas",
    "ledger note-exact": "The text of what was published stands in quotes, as one word",
    "domain schema": (
        "It prints the JSON Schema of domain files; to check one: pgmjax domain check TABLE DOMAIN; to begin "
        "one: pgmjax domain draft TABLE"
    ),
    "audit": (
        "An audit tests the mechanism behind --mechanism NAME on tables that it makes; what a release "
        "promises is in its report.html and assurance.json"
    ),
}
"""What to do instead of naming something to a command that takes no name."""
_COMMANDS: Mapping[str, Mapping[str, str]] = {
    "pgmjax": _each(
        {
            "synth synthesize synthesise generate run measure anonymize anonymise train": (
                "Did you mean pgmjax release?"
            ),
            "sample draw": "Did you mean pgmjax release FOLDER --add-rows N?",
            "compare list": "Did you mean pgmjax mechanisms?",
            "ask count sql marginal": "Did you mean pgmjax query?",
            "budget account accountant privacy": "Did you mean pgmjax ledger?",
            "metadata schema draft init": "Did you mean pgmjax domain draft?",
            "report show open view": "The report of a release is DIR/report.html",
            "evaluate validate quality check metrics score": (
                "How good a release is says DIR/report.html; pgmjax look compares it with its table, for "
                "the holder"
            ),
        }
    ),
    "pgmjax session": _each(
        {"start open begin new init create": "pgmjax session ask begins a session with its first question"}
    ),
    "pgmjax history": _each({"show list view query status": "Did you mean pgmjax history ask?"}),
    "pgmjax domain": _each(
        {
            "make create new init infer generate detect guess write": "Did you mean pgmjax domain draft?",
            "validate verify test show": "Did you mean pgmjax domain check?",
        }
    ),
    "pgmjax ledger": _each(
        {
            "create new open make register start add add-table add-account": (
                "pgmjax ledger init opens an account for a table, and pgmjax ledger add-version takes "
                "another table about the same people"
            ),
            "set-budget budget cap set raise increase set-epsilon topup": (
                "pgmjax ledger init --epsilon fixes a budget, which cannot be changed later"
            ),
            "reset delete remove clear refund undo close": (
                "What was released stays released, so no charge is taken back"
            ),
            "list ls status balance left remaining history": "Did you mean pgmjax ledger show?",
            "check validate audit": "Did you mean pgmjax ledger verify?",
            "spend charge pay": "pgmjax release --ledger FILE charges a release",
        }
    ),
}
"""What to type or to look at, for commands that one may try, by the command that they stand behind."""
_SETTINGS = (
    "accounting alpha answer cliques compress count_share degree encoding estimate expected_records first "
    "history kept_noise learner max_candidates max_cells penalty repeat restart_seed restarts rounds "
    "samples score seed select share split start step steps strategy structure_share sweeps taxonomies "
    "theta total_share training training_count training_seed universe useless validation "
    "validation_share "
)
"""Settings of mechanisms, which --option takes; listed, as finding them takes JAX."""
_SHORT: Mapping[str, str] = {"d": "--domain", "e": "--epsilon", "o": "--out", "k": "--all-kway"}
"""What a letter means elsewhere."""
_LARGEST = 10**30
_FILE_ERRORS = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


def run() -> NoReturn:
    """Run `main` and exit the process with its code."""
    warnings.showwarning = process.show_warning
    try:
        code = main()
    except KeyboardInterrupt:  # a second one, while the first was being handled
        code = INTERRUPTED
    if code == DONE:
        sys.exit(DONE)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):  # closed, or its reader is gone
            stream.flush()
    # JAX's teardown can crash, and change the exit code, after an exception interrupted a computation
    os._exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Args:
        argv: command-line arguments. Default: those of the process.
    """
    parser = _parser()
    argv = [*_words(argv)]
    if argv[:1] == ["help"]:
        argv = [*argv[1:], "--help"]
    begun = False
    with process.listening():
        try:
            if not argv:
                parser.print_help()
                return DONE
            arguments = parser.parse_args(argv)
            module, _, name = arguments.run.partition(":")
            command = getattr(importlib.import_module(f"pgmjax.cli.{module}"), name)
            begun = True
            command(arguments)
            process.flush()
            return DONE
        except SystemExit as stop:  # argparse: 0 after --help, 2 after a usage error
            return stop.code if isinstance(stop.code, int) else BAD_INPUT
        except KeyboardInterrupt as stop:
            return _say(str(stop) or f"interrupted{'' if begun else '; nothing was done'}", INTERRUPTED)
        except BrokenPipeError:
            process.discard()
            return FAILED
        except (ValueError, TypeError, ArithmeticError, *_FILE_ERRORS) as error:
            return _say(as_typed(str(error), parser, argv), BAD_INPUT)
        except (ImportError, OSError, RuntimeError, MemoryError) as error:
            said = str(error) or type(error).__name__
            return _say(as_typed(said, parser, argv, refused=False), FAILED)


class _Parser(argparse.ArgumentParser):
    """A parser whose usage errors name what was probably meant, and end with the example of its help."""

    def __init__(self, **settings: Any) -> None:
        # a part of an option's name would mean another option as soon as one begins with the same letters
        super().__init__(allow_abbrev=False, **settings)
        self.register("type", int, _whole_number)
        self.register("type", float, _number)
        self.register("action", "once", _Once)
        self._negative_number_matcher = _NEGATIVE
        self.given: set[str] = set()
        self.words: list[str] = []
        self._mixes = False

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        """Return the value of an argument; of a choice in another case, the choice."""
        if not arg_string and action.option_strings:
            raise argparse.ArgumentError(action, f"is empty: {_wanted(action)}")
        if action.dest == "total":
            try:
                checks.not_grouped(arg_string)
            except ValueError as error:
                raise argparse.ArgumentError(action, str(error)) from None
        value = super()._get_value(action, arg_string)
        chosen = action.choices is not None and not isinstance(action, argparse._SubParsersAction)
        return (checks.same_word(value, action.choices or ()) or value) if chosen else value

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse arguments; the command itself, and not `pgmjax`, refuses those that it does not have."""
        if self._mixes:
            return super().parse_known_args(args, namespace)
        self.words = [*_words(args)]
        found, strange = super().parse_known_args(args, namespace)
        if self._subparsers is None and any(not word.startswith("-") for word in strange):
            found, strange = self._mixed(args) or (found, strange)
        if strange and (self._subparsers is None or self.get_default("run")):
            said = f"unrecognized arguments: {' '.join(strange)}"
            self.error(f"{said}{_instead(strange, self, self.words)}")
        return found, strange

    def _mixed(self, args: Any) -> tuple[Any, list[str]] | None:
        """Return what is read if arguments stand behind options; argparse takes these only if asked to."""
        self._mixes = True
        self.given.clear()
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                found, strange = self.parse_known_intermixed_args(args)
        except SystemExit:
            return None
        finally:
            self._mixes = False
        return None if strange else (found, strange)

    def error(self, message: str) -> NoReturn:
        meant = _meant(message, self)  # before explanations, whose words are no choices
        usage = self.format_usage()
        if usage.count("\n") > _MOST_LINES:  # the error would be lost below it
            usage = f"usage: {self.prog} ... (all options: {self.prog} --help)\n"
        print(usage, end="", file=sys.stderr)
        message = self._of_absent(message)
        if "arguments are required" in message:
            for option, meaning in {**_NEEDED, **_NEEDED_BY.get(self.prog.partition(" ")[2], {})}.items():
                message = re.sub(rf"{option}\b", f"{option} {meaning}", message)
        wrong = re.match(
            r"argument (?:.*/)?(--\S+): (?:expected a (?:whole )?number|invalid choice)", message
        )
        if wrong is not None and wrong[1] in _NEEDED:
            message += f" {_NEEDED[wrong[1]]}"
        lacking = re.fullmatch(r"argument (?:.*/)?(--\S+): expected (?:one|at least one) argument", message)
        if lacking is not None:
            wanted = _wanted(self._option_string_actions[lacking[1]])
            message = f"{lacking[1]} has no value behind it: {wanted}"
        message += meant
        _, found, example = (self.epilog or "").partition("Example: ")
        hint = f"example: {example}\n" if found else ""
        self.exit(BAD_INPUT, f"{self.prog}: error: {message}\n{hint}")

    def _of_absent(self, message: str) -> str:
        """Return what to say of something absent, if the words that are there tell what it is."""
        first, second = ([*self.words, "", ""])[:2]
        known, runs = self._option_string_actions, bool(self.get_default("run"))
        options = [word for word in self.words if re.match(r"--\w", word)]
        strange = [word for word in options if word.partition("=")[0] not in known]
        made = [word for word in self.words if os.path.isfile(os.path.join(word, "release.json"))]
        domains = [word for word in self.words if re.search(r"\.ya?ml$", word)]
        required, lacks = "arguments are required" in message, message.rpartition("required: ")[2]
        early = "".join(re.findall("^unrecognized arguments: (-[^ ]*)$", message))
        if required and strange and runs:
            return f"unrecognized arguments: {strange[0]}{_instead(strange[:1], self, self.words)}"
        return checks.first_said(
            (
                early and not runs,
                f"{message}. Options stand behind the command, as in pgmjax release TABLE {early}",
            ),
            (
                required and self.prog.endswith(" release") and made,
                f"{''.join(made[:1])} is a release: --add-rows N draws more rows from it, at no further cost",
            ),
            (
                "argument COMMAND: invalid choice" in message and first.startswith("-"),
                f"a command is missing before {first}, as in pgmjax release {first}",
            ),
            (lacks == "COMMAND", f"a command is missing: {' or '.join(below(self))}"),
            (
                lacks == "WHAT" and second,
                f"two of FILE, NAME and WHAT are given, and one is missing: {self.prog} FILE NAME 'WHAT'",
            ),
            (
                lacks == "TABLE" and second and os.path.exists(second),
                f"the account's name is missing before {second}: {self.prog} FILE NAME {second}",
            ),
            (
                lacks == "DOMAIN" and domains and not second,
                f"the table is missing before {first}: {self.prog} TABLE {first}",
            ),
            (
                required and "--domain" in message and domains,
                f"--domain is missing. Did you mean --domain {''.join(domains[:1])}?",
            ),
            otherwise=message,
        )


class _Once(argparse._StoreAction):
    """An option that is given once: of two values one would be lost without a word."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        if self.option_strings and self.dest in parser.given:
            raise argparse.ArgumentError(self, "is given twice: give it once.")
        parser.given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


def _number(text: str) -> float:
    """Return the number of an option."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number such as 5 or 0.5, got {text[:40]!a}") from None


def _whole_number(text: str) -> int:
    """Return the whole number of an option."""
    try:
        number = checks.integer_of_text(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if abs(number) > _LARGEST:
        raise argparse.ArgumentTypeError(f"expected a whole number of at most 10^30, got {text[:40]}")
    return number


def _wanted(action: argparse.Action) -> str:
    """Return what to write behind an option."""
    value = action.metavar or f"{{{','.join(map(str, action.choices or ()))}}}"
    option = max(action.option_strings, key=len)
    help_ = re.split(r"[;:(]|\.(?!\d)", action.help or "", maxsplit=1)[0].strip()
    return f"write {option} {value}{f', {help_}' if help_ and '%' not in help_ else ''}"


def _words(argv: Sequence[str] | None) -> Sequence[str]:
    """Return the command line."""
    return sys.argv[1:] if argv is None else argv


def _options(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options of a parser and of its commands."""
    return {*parser._option_string_actions}.union(*map(_options, below(parser).values()))


def _meant(message: str, parser: argparse.ArgumentParser) -> str:
    """Return a question about what was meant by the word that a usage error names, or ""."""
    choice = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
    if choice is None:
        return ""
    word, known = choice[1], [*re.findall(r"[\w.-]+", choice[2]), "--help", "--version"]
    options, others = parser._option_string_actions, below(parser)
    option = options.get(message.partition(":")[0].removeprefix("argument "))
    here = _CHOICES_OF_OTHERS.get(word.lower())
    advice = _COMMANDS.get(parser.prog, {}).get(word.lower())
    gaussian = ", Gaussian with one" * ("--delta" in options)
    close = difflib.get_close_matches(word, known, 1, 0.7)
    close = close or [f"{parser.prog} {name} {word}" for name, each in others.items() if word in below(each)]
    return checks.first_said(
        (here in known, f". Did you mean {here}?"),
        (
            word.lower() in _NOISE.split() and {"add-remove", "marginals"} & {*known},
            f". Noise follows from the budget: Laplace's without a delta{gaussian}",
        ),
        (option is None and advice, f". {advice}"),
        ("--text-encoding" in options and _is_codec(word), f". Did you mean --text-encoding {word}?"),
        (
            option is None and os.path.isfile(word),
            f". A command stands before a file, as in {parser.prog} {known[0]} {word}",
        ),
        (
            "," in word and option is not None,
            ". Put spaces between several" if option and option.nargs == "+" else ". Give one of them",
        ),
        (close, f". Did you mean {''.join(close[:1])}?"),
        ("[COMMAND]" in message, f". {parser.prog} alone tells of all of them"),  # which may be left out
    )


def _is_codec(word: str) -> bool:
    with contextlib.suppress(LookupError, ValueError):
        return bool(codecs.lookup(word))
    return False


def _close(option: str, known: Sequence[str]) -> list[str]:
    """Return the options that begin with a word, or the one that is nearly the same; dashes say nothing."""
    bare, word = {each.lstrip("-"): each for each in known}, option.lstrip("-").lower()
    begun = [each for each in known if len(word) > 1 and each.startswith(f"--{word}")]
    return begun[:3] or [bare[each] for each in difflib.get_close_matches(word, bare, 1, 0.7)]


def _instead(words: Sequence[str], parser: argparse.ArgumentParser, given: Sequence[str]) -> str:
    """Return what to write instead of words that a command does not take, of those that were given."""
    places = [str(each.metavar or each.dest) for each in parser._actions if not each.option_strings]
    takes = f"{parser.prog} takes {' and '.join(places) or 'nothing'} beside its options"
    if "--version" in words:
        return ". Write pgmjax --version"
    if not "".join(words).strip():
        return ". It is a blank: is there a space behind the backslash that ends a line?"
    option = next((word.partition("=")[0] for word in words if word.startswith("-")), None)
    if option is None:
        return _instead_of_word(words[0], parser, given, takes)
    known, command, name = sorted(_options(parser)), parser.prog.partition(" ")[2], option.lstrip("-")
    long = _SHORT.get(name, "")
    then = f": write {long}" if long in known else ""
    advice = _ADVICE.get(command, {}).get(name) or _ADVICE[""].get(name)
    also, setting = _OPTIONS_OF_OTHERS.get(name), name.replace("-", "_")
    said = checks.first_said(
        (
            re.match(r"-[A-Za-z]$", option),
            f". Options have no short form here{then}; {parser.prog} --help lists them",
        ),
        (name.upper() in places, f". Did you mean {name.upper()}, without an option?"),
        (advice, f". {advice}"),
        (also in known, f". Did you mean {also}?"),
        (
            name in ("input", "data", "file", "csv", "i", "table") and "TABLE" in places,
            f". The table stands without an option: {parser.prog} TABLE",
        ),
        (setting in ("seed", "random_seed", "random_state") and "--insecure-seed" in known, _NO_SEED),
        ("--option" in known and setting in _SETTINGS.split(), f". Did you mean --option {setting}=VALUE?"),
    )
    if said:
        return said
    close = [f"--{each.replace('_', '-')}" for each in ARGUMENTS.get(name, ())]
    if option in words[:-1] and not words[words.index(option) + 1].startswith("-"):  # a value stands behind
        known = [each for each in known if not _is_switch(each, parser)]
    close = [each for each in close if each in known] or _close(option, known)
    others = [*_having(option, _parser())]
    return checks.first_said(
        (close, f". Did you mean {' or '.join(close)}?"),
        (others, f". It is an option of {' and '.join(others[:2])}"),
        otherwise=f". {takes}; --help lists these",
    )


def _is_switch(option: str, parser: argparse.ArgumentParser) -> bool:
    """Return whether an option takes no value."""
    action = parser._option_string_actions.get(option)
    return action is not None and action.nargs == 0


def _instead_of_word(word: str, parser: argparse.ArgumentParser, given: Sequence[str], takes: str) -> str:
    """Return what to write instead of a word that is no option and has no place."""
    known, command = _options(parser), parser.prog.partition(" ")[2]
    bare = re.sub(r"^\W+", "", word).partition("=")[0]
    meant = [f"--{bare}"] if f"--{bare}" in known else _close(bare, sorted(known)) if "=" in word else []
    near = " or ".join(meant)
    behind = [
        what for named, what in _TAKES_NAMES.items() if named in given and word in given[given.index(named) :]
    ]
    before = given[given.index(word) - 1] if word in given else ""
    return checks.first_said(
        (
            meant and word.startswith(f" {meant[0]}"),
            f". There is a blank before {near}, as of a backslash within a line: take it away",
        ),
        (meant, f". Did you mean {near}? An option begins with two hyphens"),
        ("=" in given, ". Write an option and its value without =, as in --epsilon 1"),
        (behind, f". {''.join(behind[:1])}"),
        (
            "--option" in given and before in _SETTINGS.split(),
            ". Write the options of a mechanism as --option NAME=VALUE, such as --option rounds=3",
        ),
        (command in _TAKES_NO_NAME, f". {_TAKES_NO_NAME.get(command)}"),
        ("--domain" in known and re.search(r"\.(json|ya?ml)$", word), f". Did you mean --domain {word}?"),
        ("--out" in known and re.search(r"\.(json|ya?ml|html)$", word), f". Did you mean --out {word}?"),
        otherwise=f". That is one too many: {takes}, and most options take one value",
    )


def _having(option: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield the commands that have an option."""
    if option in parser._option_string_actions:
        yield parser.prog
    for each in below(parser).values():
        yield from _having(option, each)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="pgmjax",
        description=(
            "Release a table under differential privacy as one consistent model, and query the release."
        ),
        epilog="Exit codes: 0 done, 1 failed, 2 bad input or usage, 130 interrupted.",
    )
    parser.add_argument("-V", "--version", action="version", version=f"pgmjax {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in options.COMMANDS:
        command.add_to(commands)
    return parser


def _say(message: str, code: int) -> int:
    """Write one line to standard error and return the exit code."""
    process.say(message)
    return code
