"""Counts of a program that XLA compiled for a GPU: kernels, loops, waits of the host, bytes, exponentials.

Everything is read from the text of the scheduled program (`compiled.as_text()`); nothing is run. Each
instruction of the entry, or of the body of a loop, is one kernel or one copy on the device, but for those
that only name or place results. A loop whose number of turns XLA does not know makes the host wait for its
condition in every turn, and so does a choice between branches. CUDA graphs, which XLA may form from this
program when it runs, are not counted: they only make launches cheaper.
"""

from __future__ import annotations

import dataclasses
import math
import re

BYTES = {"pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s64": 8, "u64": 8, "f64": 8}
NO_KERNEL = {
    "parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier",
    "add-dependency", "partition-id", "replica-id", "copy-done", "async-done", "async-update",
}  # fmt: skip
SLICES = {"dynamic-slice", "slice", "gather"}
EXPONENTIAL = {"exponential", "exponential-minus-one", "log", "log-plus-one", "logistic", "tanh", "power"}
HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
START = re.compile(r"^\s+(ROOT )?%?([\w.\-]+) = (.*)$")
ARRAY = re.compile(r"(\w+)\[([\d,]*)\]")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


@dataclasses.dataclass(frozen=True)
class Rates:
    """What a device does in a second, and what a launch and a wait of the host cost.

    Attributes:
        bytes: bytes that memory moves in a second.
        exponentials: exponentials in a second.
        flops: float32 operations in a second.
        launch: seconds from the start of a small kernel to the start of the next.
        wait: seconds for which a device is idle while the host reads a condition.
    """

    bytes: float
    exponentials: float
    flops: float
    launch: float
    wait: float


@dataclasses.dataclass(frozen=True)
class Counts:
    """What a part of a program does."""

    kernels: int = 0
    host_syncs: int = 0
    traffic: float = 0
    exponentials: float = 0
    seconds: float = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(*(a + b for a, b in zip(_tuple(self), _tuple(other), strict=True)))

    def __mul__(self, times: int) -> Counts:
        return Counts(*(a * times for a in _tuple(self)))


def _tuple(counts: Counts) -> tuple[float, ...]:
    return dataclasses.astuple(counts)


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One instruction: its name, shape, operation, the names of its operands, and the rest of its line."""

    name: str
    shape: str
    operation: str
    operands: tuple[str, ...]
    rest: str
    root: bool

    def called(self, key: str) -> str:
        """The computation that an attribute names."""
        found = re.search(rf"\b{key}=%?([\w.\-]+)", self.rest)
        if found is None:
            raise ValueError(f"{self.operation} {self.name} names no {key}.")
        return found[1]


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop: the turns that XLA knows of (None: the host decides), and what one turn does."""

    turns: int | None
    turn: Counts


class Program:
    """A compiled program.

    Args:
        text: the scheduled program as text.
        rates: of the device.
        turns: turns assumed for a loop of which XLA does not know them.
    """

    def __init__(self, text: str, rates: Rates, turns: int = 1):
        self.rates, self.turns = rates, turns
        self.parts: dict[str, dict[str, Instruction]] = {}
        self.loops: list[Loop] = []
        entry, part = "", None
        for line in text.splitlines():
            if header := HEADER.match(line):
                part = self.parts.setdefault(header[2], {})
                entry = header[2] if header[1] else entry
            elif part is not None and (start := START.match(line)):
                instruction = _instruction(start[2], start[3], bool(start[1]))
                part[instruction.name] = instruction
        self.total = self.count(entry)

    def count(self, name: str) -> Counts:
        """What a computation does, with the turns of its loops."""
        total = Counts()
        for instruction in self.parts[name].values():
            total += self._one(instruction, name)
        return total

    def _one(self, instruction: Instruction, part: str) -> Counts:
        if instruction.operation in NO_KERNEL:
            return Counts()
        if instruction.operation == "while":
            return self._loop(instruction)
        if instruction.operation == "conditional":
            named = re.search(r"branch_computations=\{([^}]*)\}", instruction.rest)
            branches = re.findall(r"[\w.\-]+", named[1]) if named else []
            branches = branches or [instruction.called(f"{c}_computation") for c in ("true", "false")]
            most = max(map(self.count, branches), key=lambda counts: counts.seconds)
            return most + Counts(host_syncs=1, seconds=self.rates.wait)
        if instruction.operation == "call":
            return self.count(instruction.called("to_apply"))
        if instruction.operation == "async-start":
            return self.count(instruction.called("calls"))
        return self._kernel(instruction, part)

    def _loop(self, instruction: Instruction) -> Counts:
        known = TRIPS.search(instruction.rest)
        turn = self.count(instruction.called("body"))
        if known is None:
            turn += self.count(instruction.called("condition")) + Counts(0, 1, 0, 0, self.rates.wait)
        self.loops.append(Loop(int(known[1]) if known else None, turn))
        return turn * (int(known[1]) if known else self.turns)

    def _kernel(self, instruction: Instruction, part: str) -> Counts:
        around = self.parts[part]
        moved: float = sum(size(around[name].shape) for name in instruction.operands if name in around)
        moved += size(instruction.shape)
        exponentials = flops = 0.0
        if instruction.operation == "fusion":
            inside = self.parts[instruction.called("calls")]
            moved = _read(inside) + _written(inside)
            for each in inside.values():
                exponentials += cells(each.shape) if each.operation in EXPONENTIAL else 0
                flops += _flops(each, inside)
        elif 'custom_call_target="__gpu$xla.gpu.triton"' in instruction.rest:
            return Counts(1, 0, moved, 0, max(self.rates.launch, moved / self.rates.bytes))
        elif instruction.operation in EXPONENTIAL:
            exponentials = cells(instruction.shape)
        elif "cublas" in instruction.rest:
            flops = 2.0 * _product(instruction, around)
        rates = self.rates
        work = (moved / rates.bytes, exponentials / rates.exponentials, flops / rates.flops)
        return Counts(1, 0, moved, exponentials, max(rates.launch, *work))


def size(shape: str) -> int:
    """Bytes of an array, or of all arrays of a tuple."""
    return sum(math.prod(map(int, filter(None, dims.split(",")))) * BYTES.get(kind, 4)
               for kind, dims in ARRAY.findall(shape) if kind != "token")  # fmt: skip


def cells(shape: str) -> int:
    """Entries of an array."""
    return sum(math.prod(map(int, filter(None, dims.split(",")))) for _, dims in ARRAY.findall(shape))


def _instruction(name: str, text: str, root: bool) -> Instruction:
    """Take an instruction's line apart, from its shape on."""
    at = _closed(text, 0) if text.startswith("(") else text.index(" ")
    shape, text = text[:at], text[at:].lstrip()
    operation = text[: text.index("(")]
    end = _closed(text, len(operation))
    operands = re.findall(r"%([\w.\-]+)", text[len(operation) : end])
    return Instruction(name, shape, operation, tuple(operands), text[end:], root)


def _closed(text: str, start: int) -> int:
    """The place behind the bracket that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"A bracket is not closed: {text[:80]}")


def _read(inside: dict[str, Instruction]) -> float:
    """Bytes that a fused kernel reads: of a parameter that is only sliced, the slices."""
    total = 0.0
    for each in inside.values():
        if each.operation != "parameter":
            continue
        users = [user for user in inside.values() if each.name in user.operands]
        whole, sliced = size(each.shape), 0
        for user in users:
            if user.operation in SLICES:
                sliced += size(user.shape)
            elif not (user.operation == "dynamic-update-slice" and user.operands[0] == each.name):
                sliced += whole  # an update in place reads nothing of what it leaves
        total += min(whole, sliced)
    return total


def _written(inside: dict[str, Instruction]) -> float:
    """Bytes that a fused kernel writes: of an update in place, the update."""
    root = next(each for each in inside.values() if each.root)
    outputs = [inside[name] for name in root.operands] if root.operation == "tuple" else [root]
    total = 0.0
    for each in outputs:
        while each.operation == "bitcast":
            each = inside[each.operands[0]]
        updated = each.operation == "dynamic-update-slice"
        total += size(inside[each.operands[1]].shape if updated else each.shape)
    return total


def _flops(each: Instruction, inside: dict[str, Instruction]) -> float:
    return 2.0 * _product(each, inside) if each.operation == "dot" else 0.0


def _product(each: Instruction, around: dict[str, Instruction]) -> float:
    """Multiplications of a matrix product: entries of the result times the summed sizes."""
    summed = re.search(r'lhs_contracting_dim\w*"?[=:][{\[]"?([\d,"]*)', each.rest)
    left = ARRAY.search(around[each.operands[0]].shape) if each.operands[0] in around else None
    result = ARRAY.search(each.shape)
    if not (summed and left and result):
        return 0.0
    sizes = [int(left[2].split(",")[int(axis)]) for axis in re.findall(r"\d+", summed[1])]
    return math.prod(sizes) * cells(result[0])
