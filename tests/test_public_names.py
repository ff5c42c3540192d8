"""The public names and their signatures are those of `public_names.txt`: a change there is a decision.

After one that was meant, `python tests/test_public_names.py` writes the file anew; what it says of removed
and changed names belongs into CHANGELOG.md, by the rule of docs/stability.md.
"""

import enum
import inspect
import pathlib
import re
import types

import pgmjax

PINNED = pathlib.Path(__file__).with_name("public_names.txt")
REFERENCE = pathlib.Path(__file__).parent.parent / "docs" / "reference"


def members(module, prefix):
    """(dotted name, object) of what a module makes public, packages of the front door included."""
    for name in sorted(module.__all__):
        found = getattr(module, name)
        if isinstance(found, types.ModuleType):
            if hasattr(found, "__all__"):
                yield from members(found, f"{prefix}.{name}")
            else:
                functions = inspect.getmembers(found, inspect.isfunction)
                yield from (
                    (f"{prefix}.{name}.{n}", f)
                    for n, f in functions
                    if f.__module__ == found.__name__ and not n.startswith("_")
                )
        else:
            yield f"{prefix}.{name}", found


def signature(found):
    """Names and defaults of the parameters; annotations may be told better at any time.

    A module as a default stands with its name alone, not with where it lies on this machine.
    """
    if isinstance(found, enum.EnumType):
        return "(value)"  # what Python says of the rest differs from version to version
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ""
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return re.sub(r"<module '([\w.]+)' from '[^']*'>", r"\1", str(inspect.Signature(plain)))


def lines():
    """A line for each public name, and one for each public method or property of a class.

    What a class has unchanged from another public class stands with that one.
    """
    listed = list(members(pgmjax, "pgmjax"))
    classes = {found for _, found in listed if inspect.isclass(found)}
    for name, found in listed:
        if not callable(found):
            yield f"{name}: {type(found).__name__}"
            continue
        yield name + signature(found)
        if inspect.isclass(found):
            above = [line for base in found.__mro__[1:] if base in classes for line in own_lines(base)]
            yield from (f"{name}.{line}" for line in own_lines(found) if line not in above)


def own_lines(found):
    """A line for each public method and property that a class of ours defines or inherits."""
    for attribute, value in sorted(inspect.getmembers(found)):
        own = any(attribute in c.__dict__ for c in found.__mro__ if c.__module__.startswith("pgmjax"))
        if attribute.startswith("_") or not own:
            continue
        if inspect.isfunction(value) or inspect.ismethod(value):
            yield f"{attribute}{signature(value)}"
        elif isinstance(inspect.getattr_static(found, attribute), property):
            yield f"{attribute}: property"


def test_names_and_signatures_are_the_pinned_ones():
    now, pinned = set(lines()), set(PINNED.read_text().splitlines())
    gone, new = sorted(pinned - now), sorted(now - pinned)
    assert not gone and not new, "public names changed; see the head of this file.\n" + "\n".join(
        ["gone or changed:", *gone, "new or changed:", *new]
    )


def test_the_reference_has_every_public_name():
    text = "\n".join(p.read_text() for p in REFERENCE.glob("*.md"))
    shown = {line.removeprefix("::: ").strip() for line in text.splitlines() if line.startswith("::: ")}
    for name in pgmjax.__all__:
        if name != "__version__":
            full = f"pgmjax.{name}"
            has = full in shown or any(s.startswith(f"{full}.") for s in shown)
            assert has, f"docs/reference lacks {full}"


def test_few_names_stand_at_the_top():
    """At most 30, packages not counted; what specialists need is one level down."""
    names = [name for name in pgmjax.__all__ if not isinstance(getattr(pgmjax, name), types.ModuleType)]
    assert len(names) <= 30, sorted(names)


def test_documents_name_only_what_is_public():
    """`pj.NAME` in pages, README, notebooks, examples and benchmarks: none that left the top."""
    root = REFERENCE.parent.parent
    files = [p for folder in ("docs", "notebooks", "bench") for p in (root / folder).rglob("*.*")]
    texts = [p for p in [root / "README.md", *files] if p.suffix in (".md", ".py", ".ipynb")]
    used = {(name, p.name) for p in texts for name in re.findall(r"\bpj\.(\w+)", p.read_text())}
    assert len(used) > 100
    assert not {(name, page) for name, page in used if name not in pgmjax.__all__}


if __name__ == "__main__":
    PINNED.write_text("".join(f"{line}\n" for line in sorted(lines())))
