"""Options of `pgmjax respond` and `pgmjax collect`."""

from __future__ import annotations

from typing import Any

from pgmjax.cli.options.perturb import add_response_options


def add_parsers(commands: Any) -> None:
    """Add both commands to the parser's subcommands."""
    _add_respond(commands)
    _add_collect(commands)


def _add_respond(commands: Any) -> None:
    parser = commands.add_parser(
        "respond",
        help="answer for one record by randomised response, with no table anywhere",
        description="Replace the values of one record at random (local differential privacy), and print the "
        "response as one line of JSON. Nothing else leaves this program: the response may be sent to anyone. "
        "pgmjax collect estimates from many. Each response costs its epsilon anew.",
        epilog="Example: pgmjax respond sex=F age=34 --domain people.yaml --each --epsilon 2",
    )
    parser.add_argument("value", nargs="+", metavar="NAME=VALUE", help="a value of the record, such as sex=F")
    parser.add_argument("--domain", required=True, metavar="FILE", help="domain file that the collector gave")
    parser.add_argument("--epsilon", required=True, metavar="E", help="cost of the response, such as 2")
    add_response_options(parser)
    parser.add_argument("--out", metavar="FILE", help="write the response to a new file instead")
    parser.set_defaults(run="respond:respond_once")


def _add_collect(commands: Any) -> None:
    parser = commands.add_parser(
        "collect",
        help="join responses of pgmjax respond that have arrived, and write a folder that pgmjax query reads",
        description="Join the responses that have arrived into a perturbed table, sorted by its answers. Run "
        "it again, into another folder, as more arrive. A response that arrives twice is refused.",
        epilog="Example: pgmjax collect responses.jsonl --domain people.yaml --out people-perturbed",
    )
    parser.add_argument(
        "file", nargs="+", metavar="FILE", help="responses: .json has one, .jsonl one in each line"
    )
    parser.add_argument(
        "--domain", required=True, metavar="FILE", help="domain file that the respondents had"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to make; it must not exist")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run="respond:collect_all")
