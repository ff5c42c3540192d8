"""Domain files: JSON, or YAML with only `true` and `false` as bools, and no name given twice."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

from pgmjax._internal import checks


def read(path: str | os.PathLike[str]) -> Any:
    """Return what a .json, .yaml or .yml file holds."""
    file = pathlib.Path(path)
    kind = _kind(file)
    text = file.read_text(encoding="utf-8-sig")
    return json.loads(text, object_pairs_hook=_unique) if kind == "json" else _read_yaml(text)


def write(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a mapping as a .json, .yaml or .yml file."""
    file = pathlib.Path(path)
    if _kind(file) == "json":
        lines = (f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content.items())
        text = "{\n" + ",\n".join(lines) + "\n}\n"
    else:
        dump = checks.optional("yaml", extra="tables").safe_dump
        text = dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None)
        if _read_yaml(text) != content:  # some separators (U+0085) survive only as escapes
            text = dump(content, sort_keys=False, allow_unicode=False, default_flow_style=None)
    file.write_text(text, encoding="utf-8")


def _kind(file: pathlib.Path) -> str:
    suffix = file.suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        raise ValueError(f"a domain file must end in .json, .yaml or .yml, got {suffix or 'no ending'!r}")
    return "json" if suffix == ".json" else "yaml"


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, value in pairs:
        if not isinstance(key, str):
            raise TypeError(f"names must be strings, got {type(key).__name__}: put them in quotes")
        if key in result:
            raise ValueError(f"{key!r} is given twice: give each name once")
        result[key] = value
    return result


def _read_yaml(text: str) -> Any:
    yaml = checks.optional("yaml", extra="tables")

    class Loader(yaml.SafeLoader):  # type: ignore[name-defined]
        """YAML 1.2 bools, so that the labels `yes`, `No` and `off` stay text."""

    bool_tag = "tag:yaml.org,2002:bool"
    Loader.yaml_implicit_resolvers = {
        first: [entry for entry in entries if entry[0] != bool_tag]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(bool_tag, re.compile("^(?:[Tt]rue|TRUE|[Ff]alse|FALSE)$"), list("tTfF"))

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        return _unique(
            [tuple(loader.construct_object(part, deep=True) for part in pair) for pair in node.value]
        )

    Loader.add_constructor("tag:yaml.org,2002:map", mapping)
    try:
        return yaml.load(text, Loader=Loader)
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {error}") from error
