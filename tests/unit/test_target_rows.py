"""The ISA files' macros and rewrite rows mean what they say: run, and compared with the operation that they replace."""

from __future__ import annotations

import re
import struct
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.sim.run import simulate
from dspgen.target.isa.model import Macro
from dspgen.target.load import isa_names, load_target
from dspgen.vecdsl.ir.evaluate import evaluate_term
from dspgen.vecdsl.ir.program import OPS, Const, Op, Term, Var, VType
from dspgen.vecdsl.ir.terms import leaves

LANES = 16
COMPARISONS = ("lt", "ltu", "gt", "le", "ge", "eq", "ne")
SPECIAL = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-45, -1e-45, 1.1754944e-38, 3.4028235e38, -3.4028235e38, 1.0, 2.0],
    np.float32,
)


def term(text: str, elem: str, vector: bool, types: dict[str, str] | None = None) -> Term:
    """A rewrite row's text as a term; `elem` is the type where the text has a number, or a variable not in `types`."""
    tokens = re.findall(r"[()]|[^\s()]+", text)

    def read(elem: str, vector: bool) -> Term:
        token = tokens.pop(0)
        if token.startswith("?"):
            return Var(token[1:], VType((types or {}).get(token[1:], elem), vector))
        if token != "(":
            value = float(token) if elem in ("f32", "f64") else int(token)
            return Const(value, VType(elem, vector))
        name, own, *imm = tokens.pop(0).split(".")
        result = "i32" if name in COMPARISONS else own
        inside = [own] * OPS[name].arity
        if name == "select":
            inside[0] = "i32"
        if name.startswith("cvt_"):
            inside[0] = name.split("_")[1]
        wide = vector or name in ("lane", "reduce_min", "reduce_max")
        args = tuple(read(e, wide) for e in inside)
        assert tokens.pop(0) == ")"
        return Op(name, args, VType(result, vector), tuple(int(i) for i in imm))

    return read(elem, vector)


def lets(text: str) -> tuple[list[tuple[str, str]], str]:
    """The names that a row's side gives terms, and what stands after them."""
    found = []
    while text.startswith("(let ?"):
        depths = accumulate((mark == "(") - (mark == ")") for mark in text)
        end = next(k for k, depth in enumerate(depths) if not depth)
        name, _, own = text[len("(let ?") : end].partition(" ")
        found.append((name, own))
        text = text[end + 1 :].strip()
    return found, text


def result_of(text: str) -> str:
    name, own = text[1:].split(" ")[0].split(".")[:2]
    return "i32" if name in COMPARISONS else own


def values(elem: str, seed: int, *, special: bool = False) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if elem in ("f32", "f64"):
        found = rng.uniform(-1, 1, 400) * 2.0 ** rng.integers(-20, 20, 400)
        found[100:300] = rng.choice(SPECIAL, 200) if special else found[100:300]
        return found.astype(np.float32 if elem == "f32" else np.float64)
    found = rng.integers(-(1 << 31), 1 << 31, 400)
    found[:200] >>= rng.integers(0, 31, 200)
    found[:6] = [0, -1, 1, (1 << 31) - 1, -(1 << 31), 65535]
    return found.astype(np.int32)


def operands(row_name: str, left: str, elem: str) -> dict[str, np.ndarray]:
    comparison = left[1:].split(".")[0] in COMPARISONS
    a, b = (values(elem, seed, special=comparison) for seed in (1, 2))
    b[10:60] = a[10:60]
    if "div" in left or "mod" in left:
        b[b == -1] = -3
        if elem != "i32":
            b[60:80] = a[60:80] * np.arange(1, 21, dtype=a.dtype)
            a[80:100] = [0.0, -0.0] * 10
        else:
            b[60:200] = np.random.default_rng(3).integers(1, 100, 140)
            a[60:100] = b[60:100] * 12345
        b[b == 0] = 7  # no quotient in C
    if "sqrt" in left:
        a = np.abs(a)
        a[3] = 0
    if "cvt_f32_i32" in left:
        a[:3] = [2**30, -(2**31), 0.5]
    return {"a": a, "b": b, "k": np.abs(b) % 32 if elem == "i32" else b}


ROWS = [(name, row) for name in isa_names() for row in load_target(name).rewrites]


@pytest.mark.parametrize(("name", "row"), ROWS, ids=[f"{n}-{r.name}" for n, r in ROWS])
def test_rewrite_rows_hold(name: str, row) -> None:  # type: ignore[no-untyped-def]
    head = row.left[1:].split(" ")[0].split(".")
    elem = head[0].split("_")[1] if head[0].startswith("cvt_") else head[1]
    given = operands(row.name, row.left, elem)
    if "reduce" in row.left:
        given = {k: v[:LANES] for k, v in given.items()}
    lanes = len(given["a"])
    vector = "reduce" not in row.left
    left = term(row.left, elem, vector)
    types = {v.name: v.type.elem for v in leaves(left) if isinstance(v, Var)}
    with np.errstate(all="ignore"):
        want = np.asarray(evaluate_term(left, lanes, given, {}))
        named, right = lets(row.right)
        for name, text in named:
            made = evaluate_term(term(text, elem, vector, types), lanes, given, {})
            given[name], types[name] = np.asarray(made), result_of(text)
        got = np.asarray(evaluate_term(term(right, elem, vector, types), lanes, given, {}))
    if want.dtype.kind == "f" and "reassoc" in row.when:
        bound = 4 * np.finfo(want.dtype).eps
        assert np.all(np.abs(got - want) <= bound * np.abs(want)), row.name
    else:
        wrong = np.flatnonzero((got != want) | (np.signbit(got) != np.signbit(want)))
        assert wrong.size == 0, [(given["a"][i], given["b"][i], got[i], want[i]) for i in wrong[:5]]


def test_vector_roots_of_negative_numbers_are_not_numbers(tmp_path: Path) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        "#include <math.h>\nvoid f(const float a[16], float x[16]) {\n"
        "for (int i = 0; i < 16; i++) x[i] = sqrtf(a[i]); }"
    )
    values = np.array([-0.0, 0.0, -1.0, 4.0, -1e-30, 1e30, np.nan, -1e30, *range(8)], np.float32)
    found = run_file(str(path), load_target("ft_m7002"), Options(), inputs={"a": values})
    assert found.verified and any(r.kind == "vectorized" for r in found.remarks)
    assert np.isnan(found.outputs["x"]).tolist() == [False, False, True, False, True, False, True, True, *8 * [False]]


def test_quotients_are_the_host_s_to_the_last_bit(tmp_path: Path) -> None:
    """Ends of all kinds by each other, and quotients near where the mantissa, or the normal range, ends."""
    ends = [0, 1, 2, 0x7FFFFF, 0x800000, 0x800001, 0xFFFFFF, 0x1000000, 0x3F7FFFFF, 0x3F800000, 0x3F800001]
    ends += [0x40000000, 0x7F7FFFFF, 0x7F800000, 0x7FC00000]
    a, b = (np.array(x, np.uint32) for x in zip(*((x, y) for x in ends for y in ends), strict=True))
    rng = np.random.default_rng(1)
    more = rng.integers(0, 1 << 32, (2, 287), dtype=np.uint32)
    more[0, ::2] = (more[1, ::2] & 0x7F800000) - (more[0, ::2] % 30 << 23) | more[0, ::2] & 0x7FFFFF
    a, b = np.concatenate([a, more[0]]), np.concatenate([b ^ np.uint32(1 << 31), more[1]])
    path = tmp_path / "f.c"
    path.write_text(
        "void f(const float a[512], const float b[512], float q[512]) {\n"
        "for (int i = 0; i < 512; i++) q[i] = a[i] / b[i]; }"
    )
    options = Options(fp="strict", tiler="model")
    inputs = {
        name: np.where(np.isnan(x), np.float32(np.nan), x) for name, x in (("a", a.view("f4")), ("b", b.view("f4")))
    }
    assert len(a) == 512
    assert run_file(str(path), load_target("hexagon_v66"), options, inputs=inputs).verified


def bits(value: float) -> int:
    return int(struct.unpack("<i", struct.pack("<f", value))[0])


class Text:
    """Assembly that loads arguments, runs a macro, and stores its result."""

    def __init__(self) -> None:
        self.lines = [".global f", "f:"]

    def put(self, *lines: str) -> None:
        for line in lines:
            self.lines += [f"\t{line}", "\tSNOP 7", "\tSNOP 3"]


def run(macro: Macro, inputs: list[np.ndarray], imm: dict[str, int], size: int, pair: bool) -> np.ndarray:
    target = load_target("ft_m7002")
    text = Text()
    text.put("SMVAGA36 R11:R10,AR0", "SMVAGA36 R11:R10,AR8")
    places: dict[str, str] = {k: str(v) for k, v in imm.items()}
    next_r, next_v = 20, 10
    arguments: list[tuple[str, np.ndarray]] = [("out", np.zeros(size, np.int32))]

    def place(name: str, cls: str) -> str:
        nonlocal next_r, next_v
        if cls == "ARS":
            return "AR10"
        if cls in ("R", "RP"):
            low = next_r
            next_r += 2 if cls == "RP" else 1
            low += low % 2 if cls == "RP" else 0
            next_r = max(next_r, low + (2 if cls == "RP" else 1))
            letter = "R"
        else:
            low = next_v + (next_v % 2 if cls == "VRP" else 0)
            next_v = low + (2 if cls == "VRP" else 1)
            letter = "VR"
        if cls.endswith("P"):
            places[f"{name}.lo"], places[f"{name}.hi"] = f"{letter}{low}", f"{letter}{low + 1}"
            return f"{letter}{low + 1}:{letter}{low}"
        return f"{letter}{low}"

    n = 0
    for name, cls in macro.operands:
        if cls == "immediate":
            continue
        places[name] = place(name, cls)
        pointer = f"R{13 + 2 * n}:R{12 + 2 * n}"
        arguments.append((f"in{n}", inputs[n]))
        load = {"R": "SLDW", "RP": "SLDDW", "VR": "VLDW", "VRP": "VLDDWM2"}[cls]
        register = "AR1" if cls.startswith("V") else "AR9"
        text.put(f"SMVAGA36 {pointer},{register}", f"{load} *{register},{places[name]}")
        n += 1
    for name, cls in ((macro.result, macro.result_class), *macro.temporaries):
        places[name] = place(name, cls)
    for line in (*macro.setup, *macro.body):
        mnemonic, _, rest = line.partition(" ")
        filled = re.sub(r"\{([\w.]+)\}", lambda m: places[m.group(1)], rest)
        if mnemonic.endswith("MOVIH"):
            # A text's decimal is the whole constant, a line's number is the half itself.
            number, register = filled.split(",")
            filled = f"0x{int(number, 0):x},{register}"
        text.put(f"{mnemonic} {filled}")
    store = {"R": "SSTW", "RP": "SSTDW", "VR": "VSTW"}[macro.result_class]
    text.put(f"{store} {places[macro.result]},*{'AR0' if macro.result_class == 'VR' else 'AR8'}")
    text.lines += ["\tSBR R62", "\tSNOP 6"]
    result = simulate("\n".join(text.lines), target, arguments=arguments, strict=False, engine="python")
    return np.asarray(result.outputs["out"])


MACROS = {m.implements: m for m in load_target("ft_m7002").macros}


@pytest.mark.parametrize("n", [0, 1, 5, 15, 16])
def test_mask_first(n: int) -> None:
    got = run(MACROS["mask_first"], [], {"n": n}, LANES, False)
    assert got.tolist() == [1] * n + [0] * (LANES - n)


def test_macros_of_lanes() -> None:
    rng = np.random.default_rng(5)
    vector = rng.integers(-1000, 1000, LANES).astype(np.int32)
    floats = rng.integers(-1000, 1000, LANES).astype(np.float32)
    scalar = np.array([77], np.int32)
    assert run(MACROS["lane.i32"], [vector], {"k": 11}, 1, False)[0] == vector[11]
    want = vector.copy()
    want[4] = 77
    assert run(MACROS["insert.i32"], [vector, scalar], {"k": 4}, LANES, False).tolist() == want.tolist()
    assert run(MACROS["iota"], [], {}, LANES, False).tolist() == list(range(LANES))
    assert run(MACROS["reverse.i32"], [vector], {}, LANES, False).tolist() == vector[::-1].tolist()
    assert run(MACROS["reduce_add.i32"], [vector], {}, 1, False)[0] == vector.sum()
    assert run(MACROS["reduce_min.i32"], [vector], {}, 1, False)[0] == vector.min()
    assert run(MACROS["reduce_max.i32"], [vector], {}, 1, False)[0] == vector.max()
    assert run(MACROS["reduce_add.f32"], [floats], {}, 1, False).view(np.float32)[0] == floats.sum()
    doubles = floats.astype(np.float64) / 3
    got = run(MACROS["reduce_add.f64"], [doubles], {}, 2, True).view(np.float64)[0]
    assert abs(got - doubles.sum()) < 1e-9


def test_macros_of_conversions() -> None:
    ints = np.array([0, 1, -1, 65535, 65536, -65536, 2**31 - 1, -(2**31), 16777217, -16777219, 7, -7, 1 << 30, 12345678, -987654321, 3], np.int32)  # fmt: skip  # noqa: E501
    got = run(MACROS["cvt_i32_f32.f32"], [ints], {}, LANES, False).view(np.float32)
    assert got.tolist() == ints.astype(np.float32).tolist()
    for value in (
        0.0,
        -0.0,
        0.5,
        0.999999,
        1.5,
        2.5,
        -0.5,
        -1.5,
        -2.5,
        -0.999,
        2147483647.0,
        -2147483648.0,
        1e-300,
        7.0,
    ):
        assert run(MACROS["cvt_f64_i32.i32"], [np.array([value])], {}, 1, False)[0] == int(value)
