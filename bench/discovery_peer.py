"""What the peers of `discovery.py` share: they run under interpreters of their own, without the library.

A request on standard input names a CSV file, its columns, and jobs; a line of JSON is printed after each job.
"""

import json
import sys
import traceback

import pandas as pd


def read(asked, times):
    """Return the table of a request, with its types.

    Args:
        asked: the request.
        times: what a column of times becomes.
    """
    columns = asked["columns"]
    texts = {name: str for name in columns if columns[name]["kind"] == "text"}
    frame = pd.read_csv(asked["table"], keep_default_na=False, dtype=texts)
    for name, about in columns.items():
        if about["kind"] == "time":
            frame[name] = times(pd.to_datetime(frame[name]))
        elif about["kind"] != "text":
            frame[name] = frame[name].astype("int64" if about["kind"] == "int" else "float64")
    return frame


def serve(job, times, after=None):
    """Do the jobs of the request on standard input.

    Args:
        job: does one, of a table, the request and the job's own part of it.
        times: as `read`.
        after: is called after each job.
    """
    asked = json.load(sys.stdin)
    frame = read(asked, times)
    for one in asked["jobs"]:
        try:
            line = job(frame, asked, one)
        except Exception as error:  # whatever it dies of is its result
            traceback.print_exc()
            line = {"failed": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(line), flush=True)
        if after is not None:
            after()
