"""Which registers flat code may still read, at each of its places: along every way that control can take."""

from __future__ import annotations

from collections.abc import Sequence

from dspgen.asmir.ir.function import If, Instr, Item, Jump, Loop, Mark, VReg, overwrites, reads, writes
from dspgen.lasm.values import Atom, State
from dspgen.target.isa.model import Target

Atoms = frozenset[Atom]


class Liveness:
    """`before[k]` are the register halves read from item k on; `at` those at each mark."""

    def __init__(self, code: Sequence[Item], target: Target) -> None:
        self._state = State(target)
        self._target = target
        self.at: dict[str, Atoms] = {}
        self.before: list[Atoms] = []
        changed = True
        while changed:
            changed = self._pass(code)

    def _pass(self, code: Sequence[Item]) -> bool:
        live: set[Atom] = set()
        self.before = [frozenset()] * (len(code) + 1)
        changed = False
        for k in range(len(code) - 1, -1, -1):
            item = code[k]
            match item:
                case Instr():
                    live -= killed(item, self._state)
                    live |= read(item, self._state)
                case Jump(branch=branch):
                    if not item.conditional:
                        live.clear()
                    live |= self.at.get(item.target, frozenset())
                    live |= read(branch, self._state)
                case Loop():
                    self._loop(item, live)
                case If(condition=condition):
                    raise ValueError(f"a condition on {condition.name} in flat code")
                case Mark(name):
                    found = frozenset(live)
                    changed |= self.at.get(name) != found
                    self.at[name] = found
            self.before[k] = frozenset(live)
        return changed

    def _loop(self, loop: Loop, live: set[Atom]) -> None:
        for item in loop.body:
            if isinstance(item, Instr):
                live |= read(item, self._state)
        for stream in loop.streams:
            live.update(self._state.atoms(stream.base))
        if isinstance(loop.trip, VReg):
            live.update(self._state.atoms(loop.trip))


def read(instr: Instr, state: State) -> set[Atom]:
    return {atom for register, part in reads(instr) for atom in state.atoms(register, part)}


def written(instr: Instr, state: State) -> set[Atom]:
    return {atom for register, part in writes(instr) for atom in state.atoms(register, part)}


def killed(instr: Instr, state: State) -> set[Atom]:
    """What an instruction overwrites for sure."""
    if instr.masked:
        return set()
    return {atom for register, part in overwrites(instr) for atom in state.atoms(register, part)}
