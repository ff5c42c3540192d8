"""Runs the tests on copies of the tree with one seeded fault each, and records which faults they catch.

    python tests/faults/run.py --results FILE.jsonl [--mark "not slow"] [--only NAME ...] [--jobs 1]

All faults meet the tests of their module first, then what is left meets those of its package, then those of
what imports the module. Each line of the results is one fault under one of these groups. Run again with the
same file, it goes on where it stopped; a fault that some line catches is not run again, so `--mark ""` then
runs all tests on what the quick ones missed.
"""

import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
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

import data_and_privacy  # noqa: E402
import joints  # noqa: E402
import mechanisms_and_releases  # noqa: E402
import models_and_fits  # noqa: E402
import source  # noqa: E402

FAULTS = (*data_and_privacy.FAULTS, *models_and_fits.FAULTS, *mechanisms_and_releases.FAULTS, *joints.FAULTS)

LEFT_OUT = (".*", "*.egg-info", "build", "dist", "out", "scratch", "site", "demo-release")
STARTED = re.compile(r"^(tests/\S+?\.py)::")
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/[^ ]+?\.py)(::.*?)?(?: - .*)?$")
GROUPS = ["module", "package", "importing"]
WRITING = threading.Lock()


def copy_tree(target):
    """Copy what the tests may read: the working tree without what git and tools keep beside it."""
    shutil.copytree(ROOT, target, symlinks=True, ignore=shutil.ignore_patterns(*LEFT_OUT))
    return target


def environment(tree, cache):
    return {
        **os.environ,
        "PYTHONPATH": str(tree),
        "JAX_COMPILATION_CACHE_DIR": str(cache),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def pytest_in(tree, cache, words, limit):
    """Run pytest in a tree: (exit code or None at the time limit, output, seconds since its last output)."""
    log = tree.parent / f"{tree.name}.log"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=no", *words]
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=tree, env=environment(tree, cache), stdout=out, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            code = None
    return code, log.read_text(errors="replace"), time.time() - log.stat().st_mtime


def judge(code, output, silent, limit):
    """What a run says of the fault: (outcome, the test or the reason)."""
    lines = output.splitlines()
    if code is None:
        last = [line for line in lines if STARTED.match(line)][-1:]
        hangs = bool(last) and silent > limit / 2
        return ("caught", f"time limit: {last[0]}") if hangs else ("unfinished", "time limit")
    if code == 0:
        return "missed", None
    failed = [match for match in map(FAILED.match, lines) if match]
    if code == 1 and failed and failed[0][2]:
        return "caught", failed[0][1] + failed[0][2]
    collecting = [match[1] for match in failed if not match[2]]
    return "error", f"exit code {code} {' '.join(collecting)}".strip()


def run_tests(tree, cache, files, mark, limit):
    """Run test files until the first fails: outcome, by which test, seconds, how many files were reached."""
    if not files:
        return {"outcome": "missed", "by": None, "seconds": 0, "files": 0}
    words = ["-x", "-vv", "-rfE", "-m", mark, *files]
    start = time.time()
    code, output, silent = pytest_in(tree, cache, words, limit)
    outcome, by = judge(code, output, silent, limit)
    reached = {match[1] for match in map(STARTED.match, output.splitlines()) if match}
    return {"outcome": outcome, "by": by, "seconds": round(time.time() - start), "files": len(reached)}


@functools.cache
def place(fault):
    """The one module that holds a fault's snippet."""
    found = source.places(source.source_files(ROOT), fault.old)
    if len(found) != 1:
        raise SystemExit(
            f"{fault.name}: its text was found {len(found)} times in the source, not once: {found}"
        )
    return found[0]


@functools.cache
def files_of(fault):
    """The test files of each group, relative to the root."""
    groups = source.in_groups(place(fault), ROOT)
    return {name: [str(path.relative_to(ROOT)) for path in paths] for name, paths in groups.items()}


def seed(fault, tree):
    """Write the fault into a tree."""
    path = tree / source.source_files(ROOT)[place(fault)].relative_to(ROOT)
    path.write_text(path.read_text().replace(fault.old, fault.new))


def run_fault(fault, group, clean, options):
    """One fault under one group of tests; the line for the results."""
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        tree = pathlib.Path(folder) / "tree"
        shutil.copytree(clean, tree, symlinks=True)
        seed(fault, tree)
        every = files_of(fault)[group]
        files = every[: options.most]
        result = run_tests(tree, options.cache, files, options.mark, options.limit)
    line = {"fault": fault.name, "area": fault.area, "tests": group, "mark": options.mark}
    line["left_out"] = len(every) - len(files)
    return {**line, "caught": result["outcome"] == "caught", **result}


def recorded(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def todo(group, options):
    """The faults that no line catches and that did not meet all of this group with this mark yet."""
    lines = recorded(options.results)
    done = {line["fault"] for line in lines if line["caught"]}
    whole = [line for line in lines if not line.get("left_out") and line["outcome"] != "unfinished"]
    done |= {line["fault"] for line in whole if (line["tests"], line["mark"]) == (group, options.mark)}
    wanted = [fault for fault in FAULTS if not options.only or fault.name in options.only]
    return [fault for fault in wanted if fault.name not in done]


def run_group(group, clean, options):
    def one(fault):
        line = run_fault(fault, group, clean, options)
        with WRITING, options.results.open("a") as out:
            out.write(json.dumps(line) + "\n")
        print(f"{line['outcome']:10} {line['seconds']:5} s  {line['fault']}  {line['by'] or ''}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, todo(group, options)))


def check_clean(clean, options):
    """The unmodified copy must collect without errors, or nothing that follows means anything."""
    code, output, _ = pytest_in(clean, options.cache, ["--collect-only", "-q"], 2 * options.limit)
    if code != 0:
        raise SystemExit(f"the unmodified tree does not collect (exit code {code}):\n{output[-3000:]}")


def confirm(clean, options):
    """Run the tests that caught a fault on the unmodified copy: one that fails there caught nothing."""
    caught = {line["by"] for line in recorded(options.results) if line["caught"]}
    tests = sorted(test for test in caught if not test.startswith("time limit"))
    code, output, _ = pytest_in(clean, options.cache, ["-rfE", "-m", "", *tests], None)
    failed = [line for line in output.splitlines() if FAILED.match(line)]
    print("\n".join([f"{len(tests)} tests on the unmodified tree: exit code {code}", *failed]))


def summary(options):
    lines = recorded(options.results)
    caught = {line["fault"] for line in lines if line["caught"]}
    left = sorted({line["fault"] for line in lines} - caught)
    never = [fault.name for fault in FAULTS if fault.name not in caught and fault.name not in left]
    print(f"caught {len(caught)} of {len(FAULTS)}; not caught: {left}; not run: {never}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--mark", default="not slow", help="pytest's -m; empty for all tests")
    parser.add_argument("--groups", nargs="+", default=GROUPS, choices=GROUPS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=600, help="seconds for each fault and group")
    parser.add_argument("--most", type=int, help="test files of a group, the closest (all)")
    parser.add_argument("--cache", type=pathlib.Path, help="folder of compiled programs, kept")
    parser.add_argument(
        "--confirm", action="store_true", help="run the catching tests on the unmodified tree"
    )
    return parser.parse_args()


def main():
    # a shell starts jobs in the background deaf to Ctrl-C, which some tests send
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = arguments()
    for fault in FAULTS:
        place(fault)
    with tempfile.TemporaryDirectory(prefix="faults") as folder:
        options.work = pathlib.Path(folder)
        options.cache = (options.cache or options.work / "cache").resolve()
        clean = copy_tree(options.work / "clean")
        if options.confirm:
            confirm(clean, options)
        else:
            check_clean(clean, options)
            for group in options.groups:
                run_group(group, clean, options)
    summary(options)


if __name__ == "__main__":
    main()
