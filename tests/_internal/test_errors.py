"""Every exception of the library has the base `pj.Error`, a public name, and a line in the reference."""

import builtins
import importlib
import inspect
import pathlib
import pkgutil

import pgmjax

PAGE = (pathlib.Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text()
SIGNALS = (Warning, StopIteration, KeyboardInterrupt)  # tell a loop or a process to end: no errors


def modules():
    """Every module of the library that this machine can import."""
    for found in pkgutil.walk_packages(pgmjax.__path__, "pgmjax."):
        if not found.name.startswith("pgmjax.__"):
            yield importlib.import_module(found.name)


def exceptions():
    """The public exception classes that modules define."""
    for module in modules():
        for name, value in vars(module).items():
            own = inspect.isclass(value) and value.__module__ == module.__name__
            if own and issubclass(value, BaseException) and name[0] != "_" and not issubclass(value, SIGNALS):
                yield value


def public_names(error):
    """`pj.NAME` and `pj.PACKAGE.NAME`, or `pgmjax.PACKAGE.NAME` of what is loaded when asked."""
    if error.__name__ in pgmjax.__all__:
        yield f"pj.{error.__name__}"
    for found in pkgutil.iter_modules(pgmjax.__path__):
        package = vars(pgmjax).get(found.name) or importlib.import_module(f"pgmjax.{found.name}")
        if error.__name__ in getattr(package, "__all__", ()) and getattr(package, error.__name__) is error:
            yield f"{'pj' if found.name in pgmjax.__all__ else 'pgmjax'}.{found.name}.{error.__name__}"


def test_an_error_has_the_base_a_built_in_kind_a_public_name_and_a_line_in_the_reference():
    errors = set(exceptions()) - {pgmjax.Error}
    assert len(errors) == 24 and issubclass(pgmjax.Error, Exception)
    for error in errors:
        assert issubclass(error, pgmjax.Error)
        kind = error.__bases__[1]
        assert getattr(builtins, kind.__name__, None) is kind and kind is not Exception
        names = list(public_names(error))
        assert names, f"{error.__name__} is exported by no package"
        assert any(f"| `{name}` | `{kind.__name__}` |" in PAGE for name in names), error.__name__
