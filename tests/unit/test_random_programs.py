"""Random C programs: the same for the same seed, defined, and over all constructs that they are to cover."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dspgen.frontend.parse.preprocess import run_compiler
from tests.generators.program_files import Source, driver
from tests.generators.program_tree import (
    BITS,
    COMPARISONS,
    FLOATS,
    Assign,
    Bin,
    Call,
    Cast,
    Cond,
    Elem,
    For,
    If,
    Jump,
    Label,
    Num,
    Program,
    Un,
    Var,
    type_of,
    types_of,
    walk_tree,
)
from tests.generators.programs import random_source

ROOT = Path(__file__).parents[2]
SEEDS = 300
DIGEST = """
import hashlib, random
from tests.generators.programs import random_source
texts = [random_source(random.Random(str(seed))).text for seed in range(12)]
print(hashlib.sha256("".join(texts).encode()).hexdigest())
"""
# Signed integers wrap, as the oracle's compiler is told.
SANITIZERS = "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize=signed-integer-overflow,shift-base"
FLAGS = f"-std=gnu11 -w -g -O0 -fwrapv -fsigned-char -fno-sanitize-recover=all {SANITIZERS}".split()


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    return [random_source(random.Random(str(seed))) for seed in range(SEEDS)]


def test_the_same_seed_makes_the_same_program(sources: list[Source]) -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        known = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        ended = subprocess.run([sys.executable, "-c", DIGEST], env=known, capture_output=True, text=True, check=True)
        digests.add(ended.stdout)
    assert len(digests) == 1
    assert random_source(random.Random("5")).text == sources[5].text
    assert len({s.text for s in sources}) == SEEDS


def test_programs_are_defined(sources: list[Source], tmp_path: Path) -> None:
    """None that is run by the sanitizers on arrays as large as declared does anything undefined."""
    path, program = tmp_path / "all.c", tmp_path / "all"
    path.write_text(driver(sources[:40]), encoding="utf-8")
    made = run_compiler([*FLAGS, str(path), "-o", str(program), "-lm"])
    assert made.returncode == 0, made.stderr
    ran = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, f"program {ran.stdout.split()[-1]}: {ran.stderr[:2000]}"
    assert ran.stdout.split() == [str(k) for k in range(40)]


def test_the_sanitizers_see_an_access_outside(tmp_path: Path) -> None:
    path, program = tmp_path / "outside.c", tmp_path / "outside"
    path.write_text("int main(int n, char **a) { int x[4] = {0}; return x[n + 3]; }", encoding="utf-8")
    assert run_compiler([*FLAGS, str(path), "-o", str(program)]).returncode == 0
    assert subprocess.run([str(program)], capture_output=True, check=False).returncode != 0


# Coverage


def constructs(program: Program) -> set[str]:
    """The constructs of a program, by names of their own."""
    types, found = types_of(program), {f"array of {a.type}" for a in program.arrays}
    found |= {f"{a.role} array" for a in program.arrays}
    found |= {"a size at run time" for a in program.arrays if any(a.symbols)}
    found |= {"several nests"} if sum(isinstance(s, For) for s in program.body) > 1 else set()
    found |= {"arrays of several types"} if len({a.type for a in program.arrays}) > 1 else set()
    found |= {"a function that is called"} if program.helpers else set()
    known = {a.name for a in program.arrays if a.contents is not None}
    for node in walk_tree(program):
        found |= set(_of_node(node, known, types))
    return found


def _of_node(node: Any, known: set[str], types: dict[str, str]) -> Iterator[str]:
    match node:
        case For():
            yield f"loop: {node.style}"
            yield from _of_loop(node)
        case If(test=test) | Cond(test=test):
            yield "?:" if isinstance(node, Cond) else "if"
            yield from _of_condition(test)
        case Jump(kind=kind):
            yield kind
        case Label():
            yield "label"
        case Cast(type_, operand):
            yield f"cast to {type_}"
            yield "cast of a float to an integer" if type_ in BITS and type_of(operand, types) in FLOATS else "cast"
        case Call(name, _):
            yield name.removesuffix("f")
        case Bin(op, left, right):
            yield op
            if len({type_of(left, types), type_of(right, types)}) > 1 and not isinstance(right, Num):
                yield "operands of two types"
        case Un(op, _):
            yield f"unary {op}"
        case Assign(_, op, _):
            yield op
        case Elem(_, subs):
            for sub in subs:
                yield from _of_subscript(sub, known)


def _of_loop(loop: For) -> Iterator[str]:
    yield "downwards" if loop.step < 0 else "steps" if loop.step > 1 else "by one"
    if any(isinstance(s, For) for s in loop.body):
        yield "a loop in a loop"
    inner = [s for s in walk_tree(loop.body) if isinstance(s, For)]
    if any(Var(loop.name) in walk_tree((i.low, i.highs)) for i in inner):
        yield "triangle"


def _of_condition(test: Any) -> Iterator[str]:
    parts = list(walk_tree(test))
    if not any(isinstance(p, Elem) for p in parts):
        return
    yield "condition on data"
    for part in parts:
        if isinstance(part, Bin) and (part.op in ("&&", "||") or (part.op in "&|" and _is_test(part.left))):
            yield f"condition with {part.op}"
        if isinstance(part, Un) and part.op == "!":
            yield "condition with !"


def _is_test(expr: Any) -> bool:
    return isinstance(expr, Bin) and expr.op in (*COMPARISONS, "&&", "||")


def _of_subscript(sub: Any, known: set[str]) -> Iterator[str]:
    if any(isinstance(n, Elem) for n in walk_tree(sub)):
        yield "indirect subscript" if isinstance(sub, Elem) and sub.array in known else "masked subscript"
    match sub:
        case Bin("*", Num(), Var()) | Bin("+" | "-", Bin("*", Num(), Var()), _):
            yield "strided subscript"
        case Bin("-", Num(), Var()) | Bin("+" | "-", Bin("-", Num(), Var()), _):
            yield "reversed subscript"


WANTED = {
    *(f"array of {t}" for t in (*FLOATS, *BITS) if t != "unsigned long"),
    "steps", "downwards", "triangle", "a loop in a loop", "several nests", "a size at run time", "local array",
    "table array", "fmin", "fmax", "fabs", "sqrt", "abs", "condition on data", "condition with &", "condition with |",
    "condition with &&", "condition with ||", "condition with !", "?:", "if", "arrays of several types",
    "operands of two types", "indirect subscript", "masked subscript", "strided subscript", "reversed subscript",
    "break", "continue", "goto", "label", "return", "cast", "cast of a float to an integer", "<<", ">>", "/", "%",
    "unary ~", "unary -", "a function that is called",
    *(f"loop: {style}" for style in ("for", "while", "do", "outer", "double")),
    *("=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="), *COMPARISONS,
}  # fmt: skip


def test_all_constructs_occur(sources: list[Source]) -> None:
    found: set[str] = set()
    for one in sources:
        found |= constructs(one.program)
    assert WANTED - found == set()


def test_few_programs_are_trivial(sources: list[Source]) -> None:
    loops = [sum(isinstance(n, For) for n in walk_tree(s.program.body)) for s in sources]
    assert min(loops) >= 1 and sum(n > 1 for n in loops) > SEEDS / 3
    assert sum(s.ranges.idle > 0 for s in sources) < SEEDS / 5
