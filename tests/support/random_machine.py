"""Machines that have any given share of the vector DSL's operations, for finding what rewriting makes of the rest."""

from __future__ import annotations

import random
from dataclasses import replace

from dspgen.target.isa.model import Instruction, MemoryAccess, Operand, SemExpr, SemStatement, Target
from dspgen.vecdsl.ir.program import OPS

_VECTOR_TO_SCALAR = {"lane", *(op for op in OPS if op.startswith("reduce_"))}
_VECTOR_ONLY = {
    *("iota", "dup_lane", "align", "even", "odd", "zip_lo", "zip_hi", "reverse", "mask_first", "mask_period", "insert"),
    *("transpose", "concat", "all_add", "all_min", "all_max"),
}
_LEFT_OUT = {op for op, info in OPS.items() if info.kind == "pair"} | {"select", "mov", "vec", "shuffle", "shuffle2"}
_IMMEDIATE = {"lane": 1, "insert": 1, "dup_lane": 1, "align": 1, "mask_first": 1, "mask_period": 3, "transpose": 1} | {
    "concat": 1
}


def random_machine(target: Target, seed: int, share: float) -> Target:
    """`target` with its arithmetic replaced by that share of all operations, on random units; moves stay."""
    rng = random.Random(seed)
    scalar = target.register_class(target.abi.scalar_class).name
    vector = next(c.name for c in target.registers if c.kind == "vector" and c.pair_of is None)
    rows = [i for i in target.instructions if _kept(i)]
    for op, info in OPS.items():
        if op in _LEFT_OUT:
            continue
        for elem in ("i32", "f32"):
            for side in (scalar, vector):
                if (side == scalar and (op in _VECTOR_ONLY or op == "bcast")) or rng.random() > share:
                    continue
                rows.append(_row(target, rng, op, elem, side, scalar, info.arity))
    rows += [
        _load(target, rng, elem, stride, vector)
        for elem in ("i32", "i16")
        for stride in (1, 2, -1)
        if rng.random() < share or stride == 1
    ]
    rows += [_store(target, rng, elem, stride, vector) for elem in ("i32", "i16") for stride in (1, 2, -1)]
    return replace(target, instructions=tuple(rows), macros=())


def _kept(row: Instruction) -> bool:
    first = row.semantics[0].value if row.semantics else None
    return first is None or first.op not in OPS or first.op in ("mov", "bcast")


def _row(target: Target, rng: random.Random, op: str, elem: str, side: str, scalar: str, arity: int) -> Instruction:
    result = scalar if op in _VECTOR_TO_SCALAR and side != scalar else side
    classes = [side] * arity
    if op == "bcast":
        classes = [scalar]
    elif op == "insert":
        classes = [side, scalar]
    operands = [Operand(f"a{i}", "register", (c,), read=True) for i, c in enumerate(classes)]
    operands += [Operand(f"k{i}", "immediate", imm=(0, 63)) for i in range(_IMMEDIATE.get(op, 0))]
    places = tuple(SemExpr("place", name=o.name) for o in operands)
    operands.append(Operand("d", "register", (result,), write=True, latency=rng.randrange(1, 7)))
    statement = SemStatement(SemExpr("place", name="d"), SemExpr(op, elem, places))
    units = tuple(rng.sample(target.unit_members, rng.randrange(1, 4)))
    return Instruction(f"x{op}{elem}{side}", f"x{op}", tuple(operands), units, 1, (statement,))


def _load(target: Target, rng: random.Random, elem: str, stride: int, vector: str) -> Instruction:
    operands = (Operand("m", "memory", read=True), Operand("d", "register", (vector,), write=True, latency=5))
    value = SemExpr("vld", elem, (SemExpr("place", name="m"), SemExpr("int", value=stride), SemExpr("int")))
    access = MemoryAccess("vector", 4, 2, 4 * target.lanes, False)
    statement = SemStatement(SemExpr("place", name="d"), value)
    return Instruction(
        f"xvld{elem}{stride}",
        "xvld",
        operands,
        tuple(rng.sample(target.unit_members, 2)),
        1,
        (statement,),
        memory=access,
    )


def _store(target: Target, rng: random.Random, elem: str, stride: int, vector: str) -> Instruction:
    operands = (Operand("m", "memory", read=True), Operand("a", "register", (vector,), read=True))
    places = (SemExpr("place", name="m"), SemExpr("int", value=stride), SemExpr("int"), SemExpr("place", name="a"))
    access = MemoryAccess("vector", 4, 2, 4 * target.lanes, True)
    statement = SemStatement(None, SemExpr("vst", elem, places))
    units = tuple(rng.sample(target.unit_members, 2))
    name = f"xvst{elem}{stride}"
    return Instruction(name, "xvst", operands, units, 1, (statement,), memory=access, predicable="lane")
