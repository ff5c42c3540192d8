"""Our own kernels taken to machine code for an H100 without one: registers, spills, issue slots a term.

Triton compiles the text of each Pallas kernel in a lowered function to a binary for compute capability 9.0;
NVIDIA's `cuobjdump` and `nvdisasm`, which come with Triton's wheel, say what is in it. The longest loop
of a kernel is the one over terms. Each instruction in it takes one issue slot of a warp, so the slots a term
are the loop's instructions over the terms of a thread in one turn. Those terms are told by the loop's
exponentials: how many of them a term takes is known from the kernel. XLA brings a Triton of its own, of
another version, so that its code can differ.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import jax
from gpu_hlo import Rates
from jax._src.interpreters import mlir
from jax._src.lib import triton as dialect
from jax._src.lib.mlir import ir

LABEL = re.compile(r"^(\.L_\w+):")
CODE = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+ )?([A-Z][\w.]*)(.*?);")


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A function made of Pallas kernels, with what it must do at least.

    Attributes:
        function: the function.
        shapes: shapes of its arguments, float32.
        terms: terms of the whole call.
        exponentials: how many a term takes in each of its Pallas kernels.
    """

    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    terms: int
    exponentials: Sequence[float]


@dataclasses.dataclass(frozen=True)
class Code:
    """One Pallas kernel as machine code."""

    registers: int
    spills: int
    shared_bytes: int
    loop: list[str]

    @property
    def exponentials(self) -> int:
        """Exponentials in one turn of the loop, of one thread."""
        return sum(name.startswith("MUFU.EX2") for name in self.loop)


def forecast(kernel: Kernel, rates: Rates) -> dict[str, Any]:
    """The figures of the Pallas kernels of a function, and their time by slots and by exponentials."""
    codes = [compiled(*found) for found in modules(kernel.function, kernel.shapes)]
    if len(codes) != len(kernel.exponentials):
        raise ValueError(f"expected {len(kernel.exponentials)} Pallas kernels, found {len(codes)}.")
    each = [len(c.loop) * e / c.exponentials for c, e in zip(codes, kernel.exponentials, strict=True)]
    needed = {
        "slots": kernel.terms * sum(each) / rates.slots,
        "exponentials": kernel.terms * sum(kernel.exponentials) / rates.exponentials,
    }
    return {
        "terms": kernel.terms,
        "slots_a_term": round(sum(each), 2),
        "exponentials_a_term": round(sum(kernel.exponentials), 3),
        "registers": [code.registers for code in codes],
        "spill_bytes": [code.spills for code in codes],
        "shared_bytes": [code.shared_bytes for code in codes],
        "bound": max(needed, key=needed.__getitem__),
        "own_s": max(needed.values()),
    }


def modules(function: Callable[..., Any], shapes: Sequence[tuple[int, ...]]) -> list[tuple[str, dict]]:
    """Triton's text, and the options, of every Pallas kernel of a function."""
    arguments = [jax.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",))
    found: list[tuple[str, dict]] = []

    def see(operation: Any) -> Any:
        named = operation.attributes
        if "call_target_name" in named and "triton" in str(named["call_target_name"]):
            settings = named["mhlo.backend_config"]
            context = mlir.make_ir_context()
            dialect.dialect.register_dialect(context)
            with context:
                module = ir.Module.parse(settings["ir"].value_bytes)
                text = module.operation.get_asm(enable_debug_info=False)
            options = {name: ir.IntegerAttr(settings[name]).value for name in ("num_warps", "num_stages")}
            found.append((text, options))
        return ir.WalkResult.ADVANCE

    lowered.compiler_ir().operation.walk(see)
    return found


def compiled(text: str, options: dict[str, int]) -> Code:
    """Compile a Pallas kernel for compute capability 9.0, and read its machine code."""
    import triton
    from triton.backends.compiler import GPUTarget

    tools = pathlib.Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        source, binary = pathlib.Path(folder, "kernel.ttir"), pathlib.Path(folder, "kernel.cubin")
        source.write_text(text)
        made = triton.compile(str(source), target=GPUTarget("cuda", 90, 32), options=options)
        binary.write_bytes(made.asm["cubin"])
        usage = _said([str(tools / "cuobjdump"), "-res-usage", str(binary)])
        listing = _said([str(tools / "nvdisasm"), "-c", str(binary)])
    spilled = re.search(r"STACK:(\d+).*LOCAL:(\d+)", usage)
    registers = re.search(r"REG:(\d+)", usage)
    if not (spilled and registers):
        raise ValueError(f"cuobjdump said nothing of registers: {usage}")
    spills = int(spilled[1]) + int(spilled[2])
    return Code(int(registers[1]), spills, made.metadata.shared, longest_loop(listing))


def longest_loop(listing: str) -> list[str]:
    """The instructions of the loop with the most of them: from a label to the last branch back to it."""
    labels: dict[str, int] = {}
    names: list[str] = []
    loops: list[tuple[int, int]] = []
    for line in listing.splitlines():
        if label := LABEL.match(line):
            labels[label[1]] = len(names)
        elif code := CODE.match(line):
            names.append(code[1])
            target = re.search(r"\.L_\w+", code[2]) if code[1].startswith("BRA") else None
            if target and target[0] in labels and "MUFU.EX2" in names[labels[target[0]] :]:
                loops.append((labels[target[0]], len(names)))
    if not loops:
        raise ValueError("the kernel has no loop with an exponential.")
    start, end = max(loops, key=lambda loop: loop[1] - loop[0])
    return names[start:end]


def _said(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
