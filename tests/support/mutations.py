"""Emitted assembly with one thing wrong: an instruction a cycle early or late, on another unit, on another register,
under another predicate, or with another number (a count, an offset, an increment, a constant).

A mutation breaks the text where the machine refuses it, or where a run of it on random data ends otherwise than the
original's: another byte in an array, another result, another value in a register that the caller relies on. That is
decided by the simulator alone. What changes neither (a dead instruction renamed, an independent one moved) breaks
nothing.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dspgen.emit.text import nop_mnemonic
from dspgen.errors import SourceError
from dspgen.sim.lowering.load import PACKET_BYTES
from dspgen.sim.run import simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target

KINDS = ("latency", "unit", "register", "predicate", "number")
_STATEMENT = re.compile(r"(\|?)(\s+)((?:\[[^\]]*\]\s*)?)([A-Za-z_][\w]*)((?:\.\w+)?)(\s*)([^;]*?)(\s*(?:;.*)?)$")


@dataclass(frozen=True, slots=True)
class Mutant:
    kind: str
    what: str
    text: str


class Mutator:
    """Makes mutants of one text, each from the generator that is given."""

    def __init__(self, text: str, target: Target) -> None:
        self.target = target
        self.lines = text.split("\n")
        self.nop = nop_mnemonic(target)
        self.code = [k for k, line in enumerate(self.lines) if self._is_code(line)]
        self.classes = [c for c in target.registers if len(c.names) > 1]
        self.suffixes = sorted({s for i in target.instructions for _, s in i.suffixes if s})

    def _is_code(self, line: str) -> bool:
        return line[:1] in (" ", "|", "\t") and not line.strip().startswith((".", self.target.text.comment))

    def mutant(self, rng: random.Random, kind: str) -> Mutant | None:
        """One mutant of the kind, or None where the place that was drawn allows none."""
        make = {
            "latency": self._latency,
            "unit": self._unit,
            "register": self._register,
            "predicate": self._predicate,
            "number": self._number,
        }
        found = make[kind](rng, rng.choice(self.code))
        if found is None:
            return None
        what, lines = found
        return Mutant(kind, what, "\n".join(lines))

    def _latency(self, rng: random.Random, at: int) -> tuple[str, list[str]] | None:
        """A wait shortened or left out, a packet joined to the one above, or an instruction moved to a neighbour."""
        lines = list(self.lines)
        joined = lines[at].startswith("|")
        if self.nop in lines[at].split()[:1]:
            words = lines[at].split()
            wait = int(words[1]) if len(words) > 1 else 1
            lines[at : at + 1] = [f"        {self.nop} {wait - 1}"] if wait > 1 and rng.random() < 0.5 else []
            return f"line {at + 1}: wait shortened", lines
        way = rng.choice(["join", "later", "earlier", "wait"])
        if way == "join" and not joined and self._before(at) is not None:
            lines[at] = "|" + lines[at][1:]
            return f"line {at + 1}: joined to the packet above", lines
        if way == "wait" and not joined:
            lines.insert(at, f"        {self.nop} 1")
            return f"line {at + 1}: a cycle later, with all after it", lines
        if way in ("later", "earlier"):
            return self._move(lines, at, later=way == "later")
        return None

    def _before(self, at: int) -> int | None:
        earlier = [k for k in self.code if k < at]
        return earlier[-1] if earlier else None

    def _move(self, lines: list[str], at: int, *, later: bool) -> tuple[str, list[str]] | None:
        """The instruction leaves its packet, of at least two, for the one below or above."""
        heads = [k for k in self.code if not lines[k].startswith("|")]
        own = max((k for k in heads if k <= at), default=None)
        if own is None:
            return None
        packet = [k for k in self.code if k >= own and (k == own or lines[k].startswith("|"))]
        packet = packet[: next((i for i, k in enumerate(packet) if i and k not in self._run(own)), len(packet))]
        other = (
            min((k for k in heads if k > at), default=None)
            if later
            else max((k for k in heads if k < own), default=None)
        )
        if len(packet) < 2 or other is None or self.nop in lines[other].split()[:1]:
            return None
        moved = "|" + lines[at][1:] if not lines[at].startswith("|") else lines[at]
        if at == own:
            lines[packet[1]] = " " + lines[packet[1]][1:]
        if later:
            lines.insert(other + 1, moved)
            del lines[at]
        else:
            del lines[at]
            lines.insert(other + 1, moved)
        return f"line {at + 1}: moved to the packet {'below' if later else 'above'}", lines

    def _run(self, head: int) -> set[int]:
        """The lines of the packet that starts at `head`."""
        found = {head}
        for k in self.code:
            if k > head:
                if not self.lines[k].startswith("|"):
                    break
                found.add(k)
        return found

    def _unit(self, rng: random.Random, at: int) -> tuple[str, list[str]] | None:
        found = _STATEMENT.match(self.lines[at])
        if found is None or found.group(4) == self.nop:
            return None
        bar, blank, predicate, word, suffix, gap, operands, tail = found.groups()
        other = rng.choice([s for s in self.suffixes if s != suffix])
        lines = list(self.lines)
        lines[at] = f"{bar}{blank}{predicate}{word}{other}{gap}{operands}{tail}"
        return f"line {at + 1}: {word}{suffix} on {other}", lines

    def _predicate(self, rng: random.Random, at: int) -> tuple[str, list[str]] | None:
        """A predicate dropped, turned round, of another register, or where there was none."""
        found = _STATEMENT.match(self.lines[at])
        if found is None or found.group(4) == self.nop:
            return None
        bar, blank, predicate, word, suffix, gap, operands, tail = found.groups()
        known = self.target.predicates
        texts = [t.format(r=r) for r in (*known.scalar, *known.lane) for t in (known.text, known.negated)]
        other = rng.choice([t for t in (texts if rng.random() < 0.5 else ["", *texts]) if t != predicate.strip()])
        if predicate and rng.random() < 0.5:
            other = ""
        lines = list(self.lines)
        lines[at] = f"{bar}{blank}{other} {word}{suffix}{gap}{operands}{tail}"
        return f"line {at + 1}: {other or 'no predicate'} in place of {predicate.strip() or 'none'}", lines

    def _number(self, rng: random.Random, at: int) -> tuple[str, list[str]] | None:
        found = _STATEMENT.match(self.lines[at])
        numbers = list(re.finditer(r"(?<![\w.])-?\d+\b", found.group(7))) if found is not None else []
        if found is None or not numbers or found.group(4) == self.nop:
            return None
        chosen = rng.choice(numbers)
        other = int(chosen.group()) + rng.choice([-1, 1])
        start = found.start(7)
        lines = list(self.lines)
        line = lines[at]
        lines[at] = f"{line[: start + chosen.start()]}{other}{line[start + chosen.end() :]}"
        return f"line {at + 1}: {other} in place of {chosen.group()}", lines

    def _register(self, rng: random.Random, at: int) -> tuple[str, list[str]] | None:
        line = self.lines[at]
        code = line.partition(self.target.text.comment)[0]
        places = []
        for found in re.finditer(r"[A-Za-z][\w]*(?::[A-Za-z]\w*)?", code):
            classes = [c for c in self.classes if found.group() in c.names]
            places += [(found.span(), found.group(), classes[0])] if classes else []
        if not places:
            return None
        (start, end), name, cls = rng.choice(places)
        other = rng.choice([n for n in cls.names if n != name])
        lines = list(self.lines)
        lines[at] = line[:start] + other + line[end:]
        return f"line {at + 1}: {other} in place of {name}", lines


Ending = tuple[object, ...]


def ending(text: str, target: Target, arguments: Sequence[tuple[str, object]], stack: int, limit: int) -> Ending | None:
    """What the caller can tell of a run; None where the machine refuses it. A return address is told from the text's
    end, as code lies wherever its length puts it."""
    try:
        program = assemble(text, target)
        result = simulate(program, target, arguments=arguments, stack=stack, engine="python", limit=limit)
    except SourceError:
        return None
    abi = target.abi
    kept = [n for n in (*abi.callee_saved, abi.scalar_stack, abi.vector_stack, *abi.entry_values)]
    size = PACKET_BYTES * len(program.packets)
    registers = tuple(
        (name, int(result.registers[name][0]) - (size if name == abi.return_operand else 0))
        for name in kept
        if name in result.registers
    )
    return (*((name, array.tobytes()) for name, array in result.outputs.items()), *registers)


def breaks(
    mutant: Mutant,
    target: Target,
    runs: Sequence[tuple[Sequence[tuple[str, object]], Ending]],
    stack: int,
    limit: int,
) -> bool:
    """`runs` are arguments, each with the original's ending."""
    return any(ending(mutant.text, target, arguments, stack, limit) != wanted for arguments, wanted in runs)


def other_data(arguments: Sequence[tuple[str, object]], seed: int) -> list[tuple[str, object]]:
    """The same sizes and numbers, with other contents of the arrays."""
    rng = np.random.default_rng(seed)
    found: list[tuple[str, object]] = []
    for name, value in arguments:
        if isinstance(value, np.ndarray) and value.ndim:
            drawn = rng.standard_normal(value.shape) * (1 if value.dtype.kind == "f" else 1000)
            found.append((name, drawn.astype(value.dtype)))
        else:
            found.append((name, value))
    return found
