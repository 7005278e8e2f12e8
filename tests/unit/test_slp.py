"""Small functions unrolled and packed into lanes: the graph, layouts, sums, and whole programs against the C's."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import NoSchedule
from dspgen.frontend.read import read_c
from dspgen.straight.candidates import straight_programs
from dspgen.straight.operand_layout import Layouts
from dspgen.straight.signed_sums import Summand, align_ordered
from dspgen.straight.trace import trace
from dspgen.target.load import load_target
from dspgen.vecdsl.ir.evaluate import evaluate
from dspgen.vecdsl.ir.program import Load, Loop, Op, Store
from dspgen.vecdsl.ir.terms import terms_in
from dspgen.vecdsl.ir.verify import verify
from plant_core.interp.func import evaluate as run
from plant_core.ir.c_semantics import NUMPY
from plant_core.ir.func import Buf, Func

ROOT = Path(__file__).parents[2]
SHAPES = [
    ("conv_full", {"H": 3, "W": 3, "FH": 2, "FW": 2}),
    ("conv_full", {"H": 3, "W": 5, "FH": 3, "FW": 3}),
    ("conv_full", {"H": 8, "W": 8, "FH": 2, "FW": 2}),
    ("matmul_small", {"M": 2, "N": 2, "K": 2}),
    ("matmul_small", {"M": 3, "N": 3, "K": 3}),
    ("matmul_small", {"M": 4, "N": 4, "K": 4}),
    ("quaternion", {}),
    ("qr_householder", {"N": 3}),
    ("qr_givens", {"N": 4}),
]


def read(name: str, sizes: dict[str, int]) -> Func:
    path = ROOT / "examples" / "irregular" / f"{name}.c"
    return read_c(str(path), defines=[(k, str(v)) for k, v in sizes.items()])


def values_for(func: Func, seed: int) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    arrays = [p for p in func.params if isinstance(p, Buf)]
    return {
        p.name: draw.uniform(0.5, 2, p.extents).astype(NUMPY[p.dtype])
        if p.dtype.startswith("f")
        else draw.integers(-50, 50, p.extents).astype(NUMPY[p.dtype])
        for p in arrays
    }


def check(func: Func, lanes: int, *, reassoc: bool, seed: int = 0, most: int = 4) -> list[str]:
    """Every program for `func` gives its results; the programs' titles."""
    target = load_target("ft_m7002", [("lanes", str(lanes))])
    values = values_for(func, seed)
    wanted = run(func, values)
    titles = []
    for straight in straight_programs(func, target, reassoc=reassoc, most=most):
        got = evaluate(verify(straight.program), lanes, values, slack=lanes)
        for name, found in got.items():
            if reassoc and found.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted[name], rtol=2e-4, atol=1e-4, err_msg=straight.title)
            else:
                np.testing.assert_array_equal(found, wanted[name], err_msg=straight.title)
        titles.append(straight.title)
    return titles


@pytest.mark.parametrize(("name", "sizes"), SHAPES)
@pytest.mark.parametrize("reassoc", [True, False])
def test_the_shapes(name: str, sizes: dict[str, int], reassoc: bool) -> None:
    func = read(name, sizes)
    assert len(check(func, 16 if reassoc else 4, reassoc=reassoc, most=9)) > 1


def test_a_full_convolution_becomes_one_vector_of_windows() -> None:
    func = read("conv_full", {"H": 3, "W": 3, "FH": 2, "FW": 2})
    programs = {s.title: s.program for s in straight_programs(func, load_target("ft_m7002"), reassoc=True, most=20)}
    program = programs["unrolled, vectors across rows"]
    assert [a.name for a in program.arrays if a.local] == ["copy"]
    stores = [s for s in program.body if isinstance(s, Store) and s.array == "out"]
    assert [(s.active, s.value.type.vector) for s in stores] == [(None, True)]
    windows = {t.address.constant for t in loads(program.body) if t.array == "copy"}
    assert len(windows) == 4


def loads(body: tuple[object, ...]) -> list[Load]:
    found: list[Load] = []
    pending = list(terms_in(body))  # type: ignore[arg-type]
    while pending:
        term = pending.pop()
        if isinstance(term, Load):
            found.append(term)
        elif isinstance(term, Op):
            pending += term.args
    return found


def from_text(tmp_path: Path, text: str) -> Func:
    path = tmp_path / "f.c"
    path.write_text(text, encoding="utf-8")
    return read_c(str(path))


def test_stored_values_are_forwarded_and_locals_vanish(tmp_path: Path) -> None:
    text = """void f(float a[8], float out[8]) {
      float t[8];
      for (int i = 0; i < 8; i++) t[i] = a[7 - i] * 2.0f;
      for (int i = 0; i < 8; i++) a[i] = t[i] + 1.0f;
      for (int i = 0; i < 8; i++) out[i] = a[i] - t[7 - i];
    }"""
    func = from_text(tmp_path, text)
    graph = trace(func, most=100)
    assert {element[0] for element in graph.outputs} == {"a", "out"}
    assert sum(node.name == "load" for node in graph.nodes) == 8
    check(func, 16, reassoc=False)
    check(func, 4, reassoc=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("void f(int n, float a[64]) { for (int i = 0; i < n; i++) a[i] = 0.0f; }", "constant"),
        ("void f(float a[64]) { for (int k = 0; k < 9; k++) for (int i = 0; i < 64; i++) a[i] += 1.0f; }", "over 200"),
        ("void f(const int p[4], float a[64]) { for (int i = 0; i < 4; i++) a[p[i]] = 1.0f; }", "run time"),
        (  # each step's place is chosen by two uses of the one before it
            "void f(const float x[64], int y[1]) { int k = 0;"
            " for (int i = 1; i < 64; i++) if (x[i] > x[k]) k = i; y[0] = k; }",
            "too many terms",
        ),
    ],
)
def test_what_cannot_be_unrolled_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(NoSchedule, match=message):
        trace(from_text(tmp_path, text), most=200)


def test_parameters_that_only_subscripts_mention(tmp_path: Path) -> None:
    text = "void f(int s, const int x[90], int b[90]) { for (int i = 0; i < 9; i++) if (x[i] > -3) b[i] = b[i * s]; }"
    with pytest.raises(NoSchedule, match="run time"):
        trace(from_text(tmp_path, text), most=200)


@pytest.mark.parametrize("count", [45, 400])
def test_long_chains_are_left_out(tmp_path: Path, count: int) -> None:
    text = (
        f"void f(float a[900]) {{ for (int i = 0; i < {count}; i++) a[2 * i + 2] += a[i] * a[2 * i] - a[2 * i + 1]; }}"
    )
    func = from_text(tmp_path, text)
    try:
        found = list(straight_programs(func, load_target("ft_m7002"), reassoc=True))
    except NoSchedule as refusal:
        assert "chain" in str(refusal)
    else:
        assert all(s.program.body for s in found)


def test_subscripts_known_at_each_instance(tmp_path: Path) -> None:
    text = """void f(const float a[12], float out[12]) {
      for (int i = 0; i < 12; i++) out[(i * 5) % 12] = a[i / 2] + a[(i * i) % 12];
    }"""
    check(from_text(tmp_path, text), 16, reassoc=True)


def test_garbage_lanes_stay_out_of_sums() -> None:
    """Lanes that don't matter may hold not-a-number, which no factor of 0 removes: such lanes are masked."""
    check(read("qr_givens", {"N": 4}), 8, reassoc=True, seed=1)


def test_loops_are_found_again() -> None:
    func = read("conv_full", {"H": 10, "W": 10, "FH": 2, "FW": 2})
    programs = [
        s for s in straight_programs(func, load_target("ft_m7002"), reassoc=True) if s.title.endswith(", rolled")
    ]
    trips = [s.max_trip for s in programs[0].program.body if isinstance(s, Loop)]
    assert max(t or 0 for t in trips) >= 3


def test_stores_in_place_wait_for_all_loads(tmp_path: Path) -> None:
    text = """void f(float a[96], const float b[2]) {
      float t[96];
      for (int i = 0; i < 96; i++) t[i] = a[95 - i] * b[0] + b[1];
      for (int i = 0; i < 96; i++) a[i] = t[i];
    }"""
    check(from_text(tmp_path, text), 8, reassoc=True, most=9)


def test_stores_in_place_wait_for_loads_that_they_are_the_only_use_of(tmp_path: Path) -> None:
    """Values that are stored as they were loaded, so that no statement but the store would load them."""
    texts = (
        "for (int i = 0; i < 20; i++) { int t = a[i]; a[i] = b[i]; b[i] = t; }",
        "for (int i = 0; i < 10; i++) { int t = a[i]; a[i] = a[19 - i]; a[19 - i] = t; }",
        "int t = a[0]; for (int i = 0; i < 19; i++) a[i] = a[i + 1]; a[19] = t;",
    )
    for body in texts:
        check(from_text(tmp_path, f"void f(int a[20], int b[20]) {{ {body} }}"), 4, reassoc=False, most=9)


def test_windows_share_a_layout_or_are_refused() -> None:
    layouts = Layouts()
    a = [("a", k) for k in range(6)]
    assert layouts.ask((False, a[0], a[1], False)) == 0
    assert layouts.ask((a[0], a[1], False, a[2])) == 1
    assert len(layouts.layouts) == 1
    assert layouts.ask((a[1], a[2], None, None)) is None  # they stand two apart by now
    assert layouts.ask((a[4], a[4], None, None)) is None
    assert layouts.ask((a[1], None, a[2], a[3])) == 2
    assert layouts.layouts[0].runs() == [(-1, a[0], 2), (2, a[2], 2)] or len(layouts.layouts[0].runs()) == 2


def test_ordered_sums_keep_every_lanes_order() -> None:
    x, y, z = Summand(1, (7,)), Summand(1, (1, 4)), Summand(-1, (2, 4))
    slots = align_ordered([(x, y, z), (x, z), None])
    assert slots is not None
    assert [[s is not None for s in slot.lanes] for slot in slots] == [
        [True, True, False],
        [True, False, False],
        [True, True, False],
    ]
    assert align_ordered([(y, x), (x,)]) is None


def random_text(seed: int) -> str:
    """A function of some loops over small arrays, integers or floats, with guards, copies and reductions."""
    draw = random.Random(seed)
    kind = draw.choice(["int", "float"])
    one = "1" if kind == "int" else "1.0f"
    rows, columns = draw.randint(2, 4), draw.randint(2, 6)

    def place(array: str) -> str:
        i = draw.choice(["i", "i", str(draw.randrange(rows))])
        j = draw.choice(["j", "j", f"{columns - 1} - j", f"(j + {draw.randint(1, 3)}) % {columns}"])
        return f"{array}[{i}][{j}]"

    def value(depth: int) -> str:
        choice = draw.randrange(9)
        if depth == 0 or choice < 2:
            return draw.choice([place("a"), place("b"), place("a"), place("t"), one])
        if choice == 8:
            return f"({value(depth - 1)} < {value(depth - 1)} ? {value(depth - 1)} : {value(depth - 1)})"
        operator = "*" if choice == 7 else draw.choice("++-*")
        return f"({value(depth - 1)} {operator} {value(depth - 1)})"

    lines = []
    for _ in range(draw.randint(1, 4)):
        target = draw.choice([place("t"), "out[i][j]", "out[i][j]"])
        guard = draw.choice(["", "", "if (i + j > 1) ", "if (j < 3) ", f"if (j != {draw.randrange(columns)}) "])
        assign = draw.choice(["=", "+=", "+=", "-="])
        inner = draw.choice(["", "", f"for (int k = 0; k < {draw.randint(1, 3)}; k++) "])
        body = f"{inner}{guard}{target} {assign} {value(2)};"
        lines.append(f"for (int i = 0; i < {rows}; i++) for (int j = 0; j < {columns}; j++) {body}")
    size = f"[{rows}][{columns}]"
    params = f"const {kind} a{size}, {kind} b{size}, {kind} t{size}, {kind} out{size}"
    return f"void f({params}) {{\n" + "\n".join(lines) + "\n}\n"


@pytest.mark.parametrize("seed", [*range(16), 166])
def test_random_functions(tmp_path: Path, seed: int) -> None:
    func = from_text(tmp_path, random_text(seed))
    check(func, (4, 16)[seed % 2], reassoc=bool(seed % 3 == 0) and func.bufs[0].dtype == "i32", seed=seed)


def test_reads_at_places_known_at_run_time(tmp_path: Path) -> None:
    """What the function never writes may be read anywhere; what it writes may not."""
    path = tmp_path / "k.c"
    path.write_text(
        "void k(const float x[16], const int p[4], float y[8]) {\n"
        "  for (int i = 0; i < 4; i++) { y[2*i] = x[2*p[i]]; y[2*i+1] = 2.0f * x[2*p[i] + 1]; }\n}\n",
        encoding="utf-8",
    )
    func = read_c(str(path))
    graph = trace(func, most=100)
    indexed = [n.leaf for n in graph.nodes if isinstance(n.leaf, Load) and n.leaf.index is not None]
    assert [load.address.constant for load in indexed] == [0, 1] * 4
    values = values_for(func, 1)
    values["p"] = np.array([3, 0, 7, 3], dtype=np.int32)
    wanted = run(func, values)
    for straight in straight_programs(func, load_target("ft_m7002"), reassoc=True):
        got = evaluate(verify(straight.program), 16, values, slack=16)
        np.testing.assert_array_equal(got["y"], wanted["y"])
    path.write_text("void k(const int p[4], float y[8]) { for (int i = 0; i < 4; i++) y[i] = y[p[i]] + 1.0f; }\n")
    with pytest.raises(NoSchedule):
        trace(read_c(str(path)), most=100)
