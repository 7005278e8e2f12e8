"""Code taken over into another function: its registers and labels get names of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dspgen.asmir.ir.function import If, Instr, Item, Jump, Label, Loop, Mark, Stream, VReg, reads, renamed, writes


def prefixed(items: Sequence[Item], prefix: str) -> Iterator[Item]:
    """The items with names of their own."""
    for item in items:
        match item:
            case Instr():
                yield _renamed(item, prefix)
            case Loop(label=label, trip=trip, streams=streams, body=body):
                yield replace(
                    item,
                    label=prefix + label,
                    trip=_register(trip, prefix) if isinstance(trip, VReg) else trip,
                    streams=tuple(Stream(_register(s.base, prefix), s.step, s.side) for s in streams),
                    body=tuple(prefixed(body, prefix)),
                )
            case If(condition, then, otherwise):
                inner = (tuple(prefixed(x, prefix)) for x in (then, otherwise))
                yield If(_register(condition, prefix), *inner)
            case Mark(name, idle):
                yield Mark(prefix + name, idle)
            case Jump(branch, keeps):
                yield Jump(_renamed(branch, prefix), tuple(_register(r, prefix) for r in keeps))


def _renamed(instr: Instr, prefix: str) -> Instr:
    registers = {register for register, _ in (*reads(instr), *writes(instr))}
    names = {register: _register(register, prefix) for register in registers}
    operands = tuple(Label(prefix + v.name) if isinstance(v, Label) else renamed(v, names) for v in instr.operands)
    predicate = instr.predicate
    if predicate is not None:
        predicate = replace(predicate, register=names[predicate.register])
    return replace(instr, operands=operands, predicate=predicate)


def _register(register: VReg, prefix: str) -> VReg:
    return VReg(prefix + register.name, register.cls)
