"""Views of machines whose registers hold several words: their rows say what the machine's own rows do."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from dspgen.sim.run import simulate
from dspgen.target.isa.model import Instruction, SemExpr, SemStatement, Target
from dspgen.target.isa.semantics import parse, places
from dspgen.target.load import isa_names, load_target
from dspgen.target.query.views import views

MACHINES = [load_target(name) for name in isa_names()]
WIDE = [(m, view) for m in MACHINES for view in views(m) if view is not m]
SIGN, WORD, DOUBLE = 1 << 31, (1 << 32) - 1, (1 << 64) - 1


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def value_of(expr: SemExpr, given: dict[str, int]) -> int:
    """An integer expression, on numbers of the width that its type tells; a plain second meaning of each operation."""
    if expr.op == "int":
        return expr.value
    if expr.op == "place":
        return given[expr.name]
    bits = int(expr.type[1:]) if expr.type else 64
    if expr.op in ("sext", "zext"):
        inner, width = value_of(expr.args[0], given), expr.args[1].value
        return signed(inner, width) if expr.op == "sext" else inner & ((1 << width) - 1)
    if expr.op == "set_high":
        low, high = (value_of(a, given) for a in expr.args)
        return (low & ~0xFFFF0000) | (high & 0xFFFF) << 16
    a, *rest = (signed(value_of(x, given), bits) for x in expr.args)
    b = rest[0] if rest else 0
    amount = b & ((1 << bits) - 1)
    fill = (1 << bits) - 1
    known = {
        "add": lambda: a + b,
        "sub": lambda: a - b,
        "mul": lambda: a * b,
        "neg": lambda: -a,
        "not": lambda: ~a,
        "mov": lambda: a,
        "bcast": lambda: a,
        "and": lambda: a & b,
        "or": lambda: a | b,
        "xor": lambda: a ^ b,
        "min": lambda: min(a, b),
        "max": lambda: max(a, b),
        "lt": lambda: int(a < b),
        "eq": lambda: int(a == b),
        "ltu": lambda: int(a & fill < b & fill),
        "shl": lambda: a << amount if amount < bits else 0,
        "shr": lambda: a >> min(amount, bits - 1),
        "shru": lambda: (a & fill) >> amount if amount < bits else 0,
    }
    return known[expr.op]()


def test_machines_of_words_are_their_own_view() -> None:
    for machine in MACHINES:
        scalar = machine.register_class(machine.abi.scalar_class)
        lanes = [c.bits for c in machine.registers if c.kind == "vector" and c.pair_of is None]
        assert (views(machine) == (machine,)) == (max(scalar.bits, *lanes) <= 32)


@pytest.mark.parametrize(("machine", "view"), WIDE, ids=lambda t: f"{t.name}-{t.packed}")
def test_widened_rows_are_right_in_the_low_word(machine: Target, view: Target) -> None:
    """On operands that are extended, as the operation needs them; a shift by zeros gets its word without its sign."""
    rng = random.Random(3)
    checked = 0
    for row in view.instructions:
        if not row.widened:
            continue
        wide = machine.instruction(row.id).semantics
        for narrow, own in zip(row.semantics, wide, strict=True):
            for _ in range(40):
                names = {p.name for s in (narrow, own) for p in places(s.value)}
                given = {n: rng.choice([0, 1, -1, 31, SIGN - 1, -SIGN, rng.randrange(-SIGN, SIGN)]) for n in names}
                second = narrow.value.args[1] if len(narrow.value.args) > 1 else None
                if narrow.value.op in ("shl", "shr", "shru") and second is not None and second.op == "place":
                    given[second.name] = rng.randrange(32)
                extended = dict(given)
                if narrow.value.op == "shru":
                    extended = {n: v & WORD for n, v in given.items()}
                got, want = value_of(own.value, extended), value_of(narrow.value, given)
                assert (got - want) & WORD == 0, (row.id, given)
            checked += 1
    assert checked > 20


@pytest.mark.parametrize(("machine", "view"), WIDE, ids=lambda t: f"{t.name}-{t.packed}")
def test_a_view_has_the_machine_s_rows_and_as_many_bits(machine: Target, view: Target) -> None:
    assert view.real is machine
    assert [r.id for r in view.instructions] == [r.id for r in machine.instructions]
    assert view.lanes == machine.lanes * view.packed
    for mine, theirs in zip(view.registers, machine.registers, strict=True):
        vector = mine.kind == "vector" or mine.vector or (mine.pair_of or "") and mine.bits != theirs.bits
        assert mine.bits * (view.packed if vector else 1) == theirs.bits
    for row in view.instructions:
        own = machine.instruction(row.id)
        assert (row.units, row.busy, row.resources, row.mnemonic) == (own.units, own.busy, own.resources, own.mnemonic)


def test_packed_rows_treat_all_words_alike() -> None:
    """What crosses lanes, or computes on whole ones, is not for several words in each; loads are, of twice as many."""
    for _, view in WIDE:
        if view.packed == 1:
            continue
        vectors = {c.name for c in view.registers if c.kind == "vector"}
        for row in view.instructions:
            if not row.compile or not any(vectors & set(o.classes) for o in row.operands):
                continue
            operations = {s.value.op for s in row.semantics}
            assert not operations & {"bcast", "lane", "add", "sub"} or "f32" in {s.value.type for s in row.semantics}
            for statement in row.semantics:
                assert "64" not in statement.value.type


def test_nested_operations_on_upper_bits_have_no_word_reading() -> None:
    """`(a >> 32) + b` needs more of a than its low word."""
    machine = next(m for m, _ in WIDE)
    row = next(
        r for r in machine.instructions if any(s.value.op == "add" and s.value.type == "i64" for s in r.semantics)
    )
    target: SemExpr = row.semantics[0].target or SemExpr("place", name="d")
    (statement,) = parse(f"{target.name} = add.i64(shru.i64(a, 32), b)", machine.lanes)
    odd = replace(row, semantics=(SemStatement(statement.target, statement.value),))
    rows = tuple(odd if r is row else r for r in machine.instructions)
    seen = views(replace(machine, instructions=rows))[0].instruction(row.id)
    assert seen.semantics == odd.semantics
    assert not seen.widened


@pytest.mark.parametrize("machine", [m for m in MACHINES if len(views(m)) > 1], ids=lambda m: m.name)
def test_a_float_operation_on_vectors_is_done_on_both_halves(machine: Target) -> None:
    """The machine itself: twice as many floats as lanes go through one multiply-add."""
    packed = views(machine)[-1]
    cls = next(c for c in machine.registers if c.kind == "vector" and c.pair_of is None)

    def row_for(op: str, elem: str) -> Instruction:
        """A row of single vectors that does the operation alone."""
        rows = (r for r in packed.instructions if r.compile and len(r.semantics) == 1)
        return next(
            r
            for r in rows
            if (r.semantics[0].value.op, r.semantics[0].value.type) == (op, elem)
            and all(cls.name in o.classes for o in r.operands if o.kind == "register")
        )

    row, load, store = row_for("mac", "f32"), row_for("vld", "i32"), row_for("vst", "i32")
    move = next(r for r in machine.instructions if r.semantics[0].value.op == "addr")
    vectors = cls.names
    address = machine.register_class(machine.address_modes.base_classes["vector"]).names[0]
    values = np.arange(packed.lanes, dtype=np.float32)
    nop = f"\t{machine.text.nop} {machine.text.nop_max}\n"
    wait = nop * 2
    back = next(r for r in machine.instructions if r.branch and r.operands[0].kind == "register")
    text = (
        f"{machine.text.global_directive.format(name='f')}\nf:\n"
        f"\t{move.mnemonic} {machine.abi.arguments[0]},{address}\n{wait}"
        f"\t{load.mnemonic} *{address},{vectors[8]}\n{wait}"
        f"\t{row.mnemonic} {','.join([vectors[8]] * (len(row.operands) - 1))},{vectors[9]}\n{wait}"
        f"\t{store.mnemonic} {vectors[9]},*{address}\n{wait}"
        f"\t{back.mnemonic} {machine.abi.return_operand}\n{nop}"
    )
    result = simulate(text, machine, arguments=[("x", values)], engine="python", strict=False)
    assert np.array_equal(result.outputs["x"], values * values + values)
