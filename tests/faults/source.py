"""A seeded fault, and the source as it sees it: files, who imports whom, which tests mirror a module."""

import ast
import functools
from typing import NamedTuple

NOT_BEHAVIOUR = (
    "test_house",
    "test_layers",
    "test_public_names",
    "test_docs",
    "test_notebooks",
    "test_faults",
)


class Fault(NamedTuple):
    """A small fault that the tests should catch: a replacement of a piece of source text that occurs once.

    Each was chosen by reading the source, as a reviewer would fear it, and not because some test is known to
    catch it. The text is searched for in the whole source, so a fault stays when modules move.

    Attributes:
        name: what is wrong with it.
        area: the part of the library it lies in.
        old: the text as it is.
        new: the faulty text.
    """

    name: str
    area: str
    old: str
    new: str


@functools.cache
def source_files(root):
    """Every module of the library by its dotted name; `kernels/` is installed as `pgmjax.kernels`."""
    files = {}
    for folder, package in ((root / "pgmjax", "pgmjax"), (root / "kernels", "pgmjax.kernels")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            files[".".join((package, *(p for p in parts if p != "__init__")))] = path
    return files


def places(files, snippet):
    """The modules that hold a snippet, one entry for each time it occurs."""
    texts = ((module, read(path)) for module, path in files.items())
    return [module for module, text in texts for _ in range(text.count(snippet))]


@functools.cache
def read(path):
    return path.read_text()


@functools.cache
def statements(path):
    """What a file's import statements say: pairs (module, name), the name None for `import module`."""
    found = set()
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            found |= {(alias.name, None) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {(node.module, alias.name) for alias in node.names}
    return found


def imported(path, files):
    """The pairs (module, name) that a file imports; the name is None where it takes the whole module."""
    pairs = {(module, name, f"{module}.{name}") for module, name in statements(path)}
    return {(full, None) if full in files else (module, name) for module, name, full in pairs}


def unit(module):
    """The package right under `pgmjax` that a module lies in, or the loose module itself."""
    return ".".join(module.split(".")[:2])


def names_from(module, files):
    """What a package's `__init__` hands on of each module: {(package, name)}."""
    package = module.rpartition(".")[0]
    found = set()
    while package in files and package != "pgmjax":
        pairs = imported(files[package], files)
        found |= {(package, name) for source, name in pairs if source == module and name}
        package = package.rpartition(".")[0]
    return found


def uses(path, module, files):
    """Whether a file imports a module: itself, what its package hands on of it, or that package whole."""
    wanted = names_from(module, files)
    wanted |= {(package, None) for package, _ in wanted}
    return any(source == module or (source, name) in wanted for source, name in imported(path, files))


@functools.cache
def reached(module, root):
    """The modules that a module reaches by imports, the closest first: (of its package, of others).

    The way to others may lead through modules of its own package and through loose ones.
    """
    files = source_files(root)
    through, inside, outside = [module], [], []
    for now in through:  # grows while it is read
        for other in sorted(files.keys() - {"pgmjax", *through, *outside}):
            if not uses(files[other], now, files):
                continue
            (inside if unit(other) == unit(module) else outside).append(other)
            if unit(other) in (unit(module), other):
                through.append(other)
    return inside, list(dict.fromkeys(outside))


def mirror(module, root):
    """Where the test file of a module lies, if it has one."""
    parts = module.split(".")[1:]
    return root.joinpath("tests", *parts[:-1], f"test_{parts[-1]}.py")


def usable(path):
    return path.is_file() and not path.stem.startswith((*NOT_BEHAVIOUR, "test_faults"))


def module_tests(module, root):
    """The test file that mirrors a module, and the tests beside it that import the module."""
    own, files = mirror(module, root), source_files(root)
    beside = own.parent if module != unit(module) else root / "tests" / unit(module).removeprefix("pgmjax.")
    named = [path for path in tests_that_import(module, files, root) if beside in path.parents]
    return [path for path in dict.fromkeys((own, *named)) if usable(path)]


def package_tests(module, root):
    """The tests of a module's own package, first those of the modules that import it."""
    package = unit(module).removeprefix("pgmjax.")
    near = [mirror(other, root) for other in reached(module, root)[0]]
    beside = sorted(mirror(module, root).parent.glob("test_*.py")) if module != unit(module) else []
    inside = sorted((root / "tests" / package).rglob("test_*.py"))
    loose = root / "tests" / f"test_{package}.py"
    return [path for path in dict.fromkeys((*near, *beside, *inside, loose)) if usable(path)]


def tests_that_import(module, files, root):
    """The test files that import a module."""
    paths = sorted((root / "tests").rglob("test_*.py"))
    return [path for path in paths if usable(path) and uses(path, module, files)]


def importing_tests(module, root):
    """The tests of what imports a module: mirrored files, tests that name it, then whole packages."""
    users = reached(module, root)[1]
    order = [path for path in (mirror(m, root) for m in users) if usable(path)]
    order += tests_that_import(module, source_files(root), root)
    return list(dict.fromkeys([*order, *(path for m in users for path in folder_tests(m, root))]))


def folder_tests(module, root):
    """All tests of a module's package, in the order of their names."""
    folder = root.joinpath("tests", module.split(".")[1])
    return [path for path in sorted(folder.rglob("test_*.py")) if usable(path)]


def in_groups(module, root):
    """The test files by group, each file in the first group that has it."""
    groups = {
        "module": module_tests(module, root),
        "package": package_tests(module, root),
        "importing": importing_tests(module, root),
    }
    seen = set()
    for name, paths in groups.items():
        groups[name] = [path for path in paths if path not in seen]
        seen |= set(paths)
    return groups
