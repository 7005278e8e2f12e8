"""Blocks that lack registers are told of all at once, and what a prolog makes for itself takes none before it."""

from __future__ import annotations

from dspgen.asmir.ir import VReg
from dspgen.sched.facts import Atom, Facts
from dspgen.sched.flow import Occupancy
from dspgen.sched.kit import Kit
from dspgen.sched.layout import Layout, Settings
from dspgen.sched.regalloc import allocate
from dspgen.sched.sections import Envelope, Section
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")
FACTS = Facts(TARGET)
CLASS = next(c for c in TARGET.registers if c.kind == "address")


def _atoms(count: int) -> list[Atom]:
    return [FACTS.atoms(VReg(f"a{k}", CLASS.name))[0] for k in range(count)]


def test_every_crowded_block_is_told_the_worst_first() -> None:
    most = len(CLASS.names)
    atoms = _atoms(most + 2)
    everything, one_less, few = (1 << most + 2) - 1, (1 << most + 1) - 1, 7
    found = Occupancy(atoms, [0] * len(atoms), 0, [[few, one_less], [few], [everything, few], []])
    failures = allocate(found, FACTS, inputs={}, predicates={}, avoid=frozenset())
    assert isinstance(failures, list)
    assert [(f.block, f.needed, f.available) for f in failures] == [(2, most + 2, most), (0, most + 1, most)]


def test_values_of_a_prolog_are_its_own() -> None:
    own, needed = _atoms(2)
    layout = Layout(FACTS, Kit(FACTS), Settings(), "f")
    prolog = Section([], 4, Envelope(reads={own: 2, needed: 2}, lands={own: 1, needed: 1}))
    assert layout._own_values(prolog, {needed}) == {own}
