"""Runs assembly text by tools that the ISA file names: an assembler, a linker and an emulator that counts packets."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dspgen.errors import DspgenError, Problem
from dspgen.sim.lowering.load import bits_of, places_of
from dspgen.target.isa.model import Target, Toolchain
from dspgen.target.query.arguments import Member, Place

Array = Any
WORD = 4
SECONDS = 300
# What compilers call without being asked.
_SUPPORT = """
void *memset(void *to, int c, unsigned long n) { char *p = to; while (n--) *p++ = c; return to; }
void *memcpy(void *to, const void *from, unsigned long n) {
  char *p = to; const char *q = from; while (n--) *p++ = *q++; return to;
}
"""
_FIELD = re.compile(r"\{([a-z]+)\}")


@dataclass(frozen=True, slots=True)
class Emulated:
    """What a run left in the arrays, and the packets of the function, from its entry through its return."""

    outputs: dict[str, Array]
    packets: int


def missing_tools(target: Target) -> str:
    """Why the target's code can't be run by tools from elsewhere, or nothing."""
    tools = target.toolchain
    if tools is None:
        return f"{target.name} names no assembler, linker and emulator"
    words = {shlex.split(command)[0]: None for command in (tools.assemble, tools.link, tools.run)}
    lacking = [word for word in words if shutil.which(word) is None]
    return f"{' and '.join(lacking)} not found: install {' '.join(tools.packages)}" if lacking else ""


def emulate(text: str, target: Target, function: str, arguments: Sequence[tuple[str, Any]]) -> Emulated:
    """Calls the function of assembly text once; `arguments` are names and values in order, arrays by reference.

    Raises DspgenError (DG521) where a tool is missing, (DG522) where one fails.
    """
    command = target.toolchain.assemble if target.toolchain is not None else ""
    return _emulated([(command, "kernel.s", text)], target, function, arguments)


def emulate_c(
    text: str,
    command: str,
    target: Target,
    function: str,
    arguments: Sequence[tuple[str, Any]],
    made: Sequence[tuple[str, str, str]] = (),
) -> Emulated:
    """The same with C text and the command of one of the target's compilers; `made` are other parts that it calls, each
    a command, and the name and the text of its source."""
    tools = target.toolchain
    support = [] if tools is None else [(tools.compile, "support.c", _SUPPORT + tools.support)]
    return _emulated([(command, "kernel.c", text), *made, *support], target, function, arguments)


def _emulated(
    parts: Sequence[tuple[str, str, str]], target: Target, function: str, arguments: Sequence[tuple[str, Any]]
) -> Emulated:
    """Each part is a command, and the name and the text of its source."""
    tools = target.toolchain
    if tools is None or (lacking := missing_tools(target)):
        told = lacking if tools is not None else missing_tools(target)
        raise DspgenError(Problem("DG521", told, remedy="or run it on the simulator: --runner sim"))
    places = places_of(target, arguments)
    arrays = {name: np.ascontiguousarray(v) for name, v in arguments if isinstance(v, np.ndarray) and v.ndim}
    with tempfile.TemporaryDirectory(prefix="dspgen-emulated-") as folder:
        place = Path(folder)
        start = _start(tools, target, function, [*zip(arguments, places, strict=True)], arrays, place)
        objects = []
        for command, name, source in (*parts, (tools.assemble, "start.s", start)):
            (place / name).write_text(source, encoding="utf-8")
            objects.append(name[:-1] + "o")
            _run(command, {"source": name, "object": objects[-1]}, place)
        _run(tools.link, {"objects": " ".join(objects), "program": "program"}, place)
        raw = _run(tools.run, {"program": "./program"}, place)
    sizes = [a.nbytes for a in arrays.values()]
    if len(raw) != sum(sizes) + WORD:
        raise DspgenError(Problem("DG522", f"{shlex.split(tools.run)[0]} gave {len(raw)} bytes of output"))
    outputs, at = {}, 0
    for name, array in arrays.items():
        part = raw[at : at + array.nbytes]
        outputs[name], at = np.frombuffer(part, dtype=array.dtype).reshape(array.shape).copy(), at + array.nbytes
    return Emulated(outputs, int.from_bytes(raw[at:], "little") - tools.overhead)


def _start(
    tools: Toolchain,
    target: Target,
    function: str,
    arguments: Sequence[tuple[tuple[str, Any], Place]],
    arrays: Mapping[str, Array],
    folder: Path,
) -> str:
    """The program that calls the function with arguments in their places; the arrays' contents are files beside it."""
    passed, data, outputs = list[str](), list[str](), list[str]()
    registers = target.register_class(target.abi.scalar_class).names
    for (name, value), place in arguments:
        if isinstance(place, Member):
            what = f"{function} has its arguments in a structure, and the ISA file's [toolchain] passes none"
            raise DspgenError(Problem("DG430", what, remedy="run it on the simulator: --runner sim"))
        label = f"array_{name}"
        for k, shown in enumerate([label] if name in arrays else _words(name, value)):
            if isinstance(place, int):
                passed.insert(0, _filled(tools.stack_argument, {"offset": str(place + WORD * k), "value": shown}))
            else:
                register = registers[registers.index(place) + k]
                passed.append(_filled(tools.argument, {"register": register, "value": shown}))
        if name in arrays:
            file = folder / f"{name}.bin"
            file.write_bytes(arrays[name].tobytes())
            data.append(_filled(tools.data, {"name": label, "file": str(file)}))
            outputs.append(_filled(tools.output, {"address": label, "bytes": str(arrays[name].nbytes)}))
    outputs.append(_filled(tools.output, {"address": tools.counter, "bytes": str(WORD)}))
    texts = {"arguments": passed, "data": data, "outputs": outputs}
    return _filled(tools.start, {"function": function, **{name: "\n".join(found) for name, found in texts.items()}})


def _words(name: str, value: Any) -> list[str]:
    """A scalar's words, the low one first."""
    bits, wide = bits_of(name, value)
    return [str(bits >> shift & 0xFFFFFFFF) for shift in ((0, 32) if wide else (0,))]


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda found: values.get(found[1], found[0]), template)


def _run(command: str, values: Mapping[str, str], folder: Path) -> bytes:
    words = shlex.split(_filled(command, values))
    try:
        # The output is a file: writes to a pipe may be done in part.
        with (folder / "output").open("wb") as output:
            done = subprocess.run(
                words, cwd=folder, stdout=output, stderr=subprocess.PIPE, timeout=SECONDS, check=False
            )
    except subprocess.TimeoutExpired as error:
        raise DspgenError(Problem("DG522", f"{words[0]} takes more than {SECONDS} seconds")) from error
    if done.returncode:
        told = done.stderr.decode("utf-8", "replace").strip()[:2000]
        raise DspgenError(Problem("DG522", f"{words[0]} fails with status {done.returncode}: {told}"))
    return (folder / "output").read_bytes()
