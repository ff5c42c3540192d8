"""Seeds one fault at a time into a copy of the library, runs its tests, and prints the faults that survive.

    python tests/faults/run.py                               all seeded faults
    python tests/faults/run.py "*delta*" "a lie *"           some, by their names
    python tests/faults/run.py --random 200 --seed 1 --packages privacy,measurements
    options: --jobs 2   --results LINES.jsonl (goes on where it stopped)   --limit 300   --most 8

The working tree is never written to. The exit code is 1 if a fault survived or an attempt broke off.
"""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import audited  # noqa: E402
import data_and_privacy  # noqa: E402
import mechanisms_and_releases  # noqa: E402
import models_and_fits  # noqa: E402
import mutants  # noqa: E402
import trees  # noqa: E402

FAULTS = (*data_and_privacy.FAULTS, *models_and_fits.FAULTS, *mechanisms_and_releases.FAULTS, *audited.FAULTS)
LEFT_OUT = (".*", "*.egg-info", "build", "dist", "out", "scratch", "site", "demo-release")
# what these look at is the text of the source, which a fault always changes
OF_TEXT = ("test_house", "test_layers", "test_public_names", "test_docs", "test_notebooks", "test_faults")
FAILED = re.compile(r"^(?:FAILED|ERROR) (.*?)(?: - .*)?$", re.MULTILINE)
WRITING = threading.Lock()


def path_of(module, root=ROOT):
    """The file of a module, under the root of a tree."""
    path = root.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def changed(fault):
    """The text of a fault's module with the fault in it."""
    return trees.changed(path_of(fault.module).read_text(), fault.function, fault.old, fault.new)


def modules(packages):
    """The files of packages by the dotted names of their modules."""
    paths = [path for name in packages for path in sorted((ROOT / "pgmjax" / name).rglob("*.py"))]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}


def near(mutant, most):
    """The test files closest to a mutant: of its module, then what names its function, then its module."""
    *folders, name = mutant.module.split(".")[1:]
    whole, own = ROOT / "tests" / folders[0], ROOT.joinpath("tests", *folders, f"test_{name.strip('_')}.py")
    word = re.compile(rf"\b{re.escape(mutant.function.split('.')[0])}\b")

    def rank(path):
        text = path.read_text()
        return (path != own, not word.search(text), not re.search(rf"\b{name}\b", text), path.stat().st_size)

    files = [path for path in whole.rglob("test_*.py") if not path.stem.startswith(OF_TEXT)]
    return [str(path.relative_to(ROOT)) for path in sorted(files, key=rank)[:most]]


def environment(tree):
    cache = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**os.environ, **cache, "PYTHONPATH": str(tree)}


def pytest_in(tree, words, limit):
    """Run pytest in a tree: its exit code, None at the time limit, and what it printed."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--tb=no",
        "-rfE",
        "-p",
        "no:cacheprovider",
        *words,
    ]
    with (tree.parent / f"{tree.name}.log").open("w+") as log:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment(tree),
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        log.seek(0)
        return code, log.read()


def judged(code, output):
    """What a run says of a fault: (outcome, the test that failed or why there is none)."""
    failed = FAILED.search(output)
    if code == 0:
        return "survived", None
    if code == 1 or (code == 2 and failed):
        return "caught", failed[1] if failed else None
    return ("slow", "time limit") if code is None else ("broken", output.strip()[-200:])


def attempt(name, module, text, words, tree, limit):
    """One fault in a tree of its own: the line for the results."""
    path, start = path_of(module, tree), time.time()
    clean, before = path.read_bytes(), path.stat()
    try:
        path.write_text(text)
        outcome, by = judged(*pytest_in(tree, words, limit))
    finally:
        path.write_bytes(clean)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # what was compiled of it is valid again
    return {
        "fault": name,
        "outcome": outcome,
        "by": by,
        "seconds": round(time.time() - start),
        "tests": words,
    }


def todo(options):
    """What is to be run: (name, module, changed text, words for pytest) of each fault."""
    if options.random:
        for mutant in mutants.drawn(modules(options.packages.split(",")), options.random, options.seed):
            words = ["-m", "not slow", *near(mutant, options.most)]
            yield mutant.name, mutant.module, mutant.text, words
    for fault in FAULTS if not options.random else ():
        if not options.names or any(fnmatch.fnmatch(fault.name, name) for name in options.names):
            yield fault.name, fault.module, changed(fault), ["-m", "", *fault.tests]


def recorded(path):
    """The lines of a results file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path and path.exists() else []


def run(options):
    """Run what has no line yet; return the lines of all."""
    wanted, lines = list(todo(options)), {line["fault"]: line for line in recorded(options.results)}
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        trees_free = queue.SimpleQueue()
        for job in range(options.jobs):
            ignored = shutil.ignore_patterns(*LEFT_OUT)
            trees_free.put(
                pathlib.Path(shutil.copytree(ROOT, f"{folder}/{job}", symlinks=True, ignore=ignored))
            )

        def one(work):
            tree = trees_free.get()
            try:
                line = attempt(*work, tree, options.limit)
            except Exception as error:
                line = {"fault": work[0], "outcome": "broken", "by": repr(error), "seconds": 0}
            finally:
                trees_free.put(tree)
            with WRITING:
                if options.results:
                    with options.results.open("a") as out:
                        out.write(json.dumps(line) + "\n")
                lines[work[0]] = line
                print(f"{line['outcome']:9}{line['seconds']:5} s  {work[0]}  [{line['by']}]", flush=True)

        left = [work for work in wanted if work[0] not in lines]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            try:
                list(pool.map(one, left))
            except KeyboardInterrupt:
                pool.shutdown(cancel_futures=True)
    return [lines[work[0]] for work in wanted if work[0] in lines], len(wanted)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="names or patterns of seeded faults (all)")
    parser.add_argument("--random", type=int, default=0, help="draw so many random mutants instead")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--packages", default="privacy,measurements,estimation,inference")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300, help="seconds for each fault")
    parser.add_argument("--most", type=int, default=8, help="test files for a random mutant, the closest")
    parser.add_argument(
        "--results", type=pathlib.Path, help="one JSON line for each; goes on where it stopped"
    )
    return parser.parse_args()


def main():
    # a shell starts jobs in the background deaf to Ctrl-C, which some tests send
    signal.signal(signal.SIGINT, signal.default_int_handler)
    lines, number = run(arguments())
    caught = [line for line in lines if line["outcome"] == "caught"]
    print(f"caught {len(caught)} of {number}; left:")
    for line in lines:
        if line not in caught:
            print(f"  {line['outcome']}: {line['fault']}")
    sys.exit(len(caught) < number)


if __name__ == "__main__":
    main()
