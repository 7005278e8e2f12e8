"""A machine with as many registers as a linear program wants: its virtual registers join the target's classes.

Before: a program on virtual registers. After: a target that has each of them by a name of its own, so that the lowering
and both machines read linear assembly as they read packets. Pairs get two consecutive registers of their base class.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from dspgen.target.isa.model import RegisterClass, Target


@dataclass(frozen=True, slots=True)
class VirtualRegisters:
    """`target` has the virtual registers; `text[(name, class)]` is what each is called there, `halves` its low and high
    half where it is a pair."""

    target: Target
    text: dict[tuple[str, str], str]
    halves: dict[tuple[str, str], tuple[str, str]]


def with_virtual(target: Target, registers: Iterable[tuple[str, str]], lane: Iterable[str] = ()) -> VirtualRegisters:
    """Adds `registers` (name, class) to the target; those named in `lane` may be lane predicates."""
    wanted = sorted(set(registers))
    classes = {c.name: c for c in target.registers}
    names = {c.name: list(c.names) for c in target.registers}
    text: dict[tuple[str, str], str] = {}
    halves: dict[tuple[str, str], tuple[str, str]] = {}
    for name, cls in wanted:
        if classes[cls].pair_of is None:
            text[name, cls] = f"%{name}.{cls}"
            names[cls].append(text[name, cls])
    for name, cls in wanted:
        base = classes[cls].pair_of
        if base is not None:
            text[name, cls], halves[name, cls] = _add_pair(names, cls, base, f"%{name}.{cls}")
    lanes = tuple(text[name, cls] for name, cls in wanted if name in set(lane))
    return VirtualRegisters(
        replace(
            target,
            registers=tuple(_renamed(c, names[c.name]) for c in target.registers),
            predicates=replace(target.predicates, lane=(*target.predicates.lane, *lanes)),
        ),
        text,
        halves,
    )


def _add_pair(names: dict[str, list[str]], cls: str, base: str, text: str) -> tuple[str, tuple[str, str]]:
    """Register i of a pair class is made of 2i and 2i + 1 of its base, so both lists are filled up to an even place."""
    place = max(len(names[cls]), -(-len(names[base]) // 2))
    names[cls] += [f"%{cls}.{k}" for k in range(len(names[cls]), place)]
    names[base] += [f"%{base}.{k}" for k in range(len(names[base]), 2 * place)]
    low, high = f"{text}.lo", f"{text}.hi"
    names[base] += [low, high]
    names[cls].append(text)
    return text, (low, high)


def _renamed(cls: RegisterClass, names: list[str]) -> RegisterClass:
    return replace(cls, names=tuple(names))
