"""Arrays that the engine turns round on their way onto the chip and back, on a machine with little memory there."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dspgen.driver.pipeline import RunResult, compile_file, run_compiled, run_file
from dspgen.errors import NoSchedule
from dspgen.frontend.read import read_c
from dspgen.offchip.cost_model import Judge
from dspgen.offchip.tile_search import in_turn
from dspgen.options import Options
from dspgen.target.isa.model import Target
from dspgen.target.load import load_target
from plant_core.ir.func import Func
from plant_core.scratchpad.dma_layouts import Turned, layouts
from plant_core.scratchpad.tiled_func import Blocks, flat

ROOM = ("memories.AM.size", "16384")
SMALL = load_target("ft_m7002", [ROOM])
ONE = Options(data="ddr", tile="one")


def run(text: str, folder: Path, target: Target = SMALL, options: Options = ONE) -> RunResult:
    path = folder / "kernel.c"
    path.write_text(text, encoding="utf-8")
    result = run_file(str(path), target, options)
    assert result.verified, (result.details, text)
    return result


def told(result: RunResult) -> str:
    return " ".join(r.message for r in result.remarks if r.kind == "blocks")


CHOSEN = {
    "a product with a transposed matrix": """void f(const float a[50][30], const float b[40][30], float c[50][40]) {
        for (int i = 0; i < 50; i++) for (int j = 0; j < 40; j++) { c[i][j] = 0;
            for (int k = 0; k < 30; k++) c[i][j] += a[i][k] * b[j][k]; } }""",
    "a product of transposed matrices": """void f(const float a[30][50], const float b[40][30], float c[50][40]) {
        for (int i = 0; i < 50; i++) for (int j = 0; j < 40; j++) { c[i][j] = 0;
            for (int k = 0; k < 30; k++) c[i][j] += a[k][i] * b[j][k]; } }""",
    "a transposed matrix": """void f(const float a[90][70], float b[70][90]) {
        for (int i = 0; i < 70; i++) for (int j = 0; j < 90; j++) b[i][j] = a[j][i]; }""",
    "pixels": """void f(const float p[1500][3], float g[1500]) {
        for (int i = 0; i < 1500; i++) g[i] = 0.3f * p[i][0] + 0.6f * p[i][1] + 0.1f * p[i][2]; }""",
}


@pytest.mark.parametrize("name", CHOSEN)
def test_rows_that_lanes_step_through_are_turned_round(name: str, tmp_path: Path) -> None:
    assert "turns round" in told(run(CHOSEN[name], tmp_path))


ANY_SIZE = {
    "a product with a transposed matrix": """void f(int n, int m, int p, const float a[n][p], const float b[m][p],
        float c[n][m]) { for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { c[i][j] = 0;
            for (int k = 0; k < p; k++) c[i][j] += a[i][k] * b[j][k]; } }""",
    "rows of one length times each other": """void f(int n, int m, int p, const float a[n][19], const float b[m][19],
        float c[n][m]) { for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) { c[i][j] = 0;
            for (int k = 0; k < 19; k++) c[i][j] += a[i][k] * b[j][k]; } }""",
    "a transposed matrix": """void f(int n, int m, int p, const float a[n][m], float b[m][n]) {
        for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) b[i][j] = a[j][i]; }""",
}


LONG = ("a product with a transposed matrix", "rows of one length times each other")  # to compile


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n in LONG else ()) for n in ANY_SIZE])
def test_so_they_are_where_only_a_run_tells_sizes(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(ANY_SIZE[name], encoding="utf-8")
    compiled = compile_file(str(path), SMALL, ONE)
    assert any("turns round" in r.message for r in compiled.remarks if r.kind == "blocks")
    for sizes in ((37, 53, 19), (1, 1, 1), (100, 0, 3), (0, 9, 9), (7, 5, 0)):
        result = run_compiled(compiled, str(path), SMALL, ONE, inputs=dict(zip("nmp", sizes, strict=True)))
        assert result.verified, (sizes, result.details)


def test_rows_stay_as_they_are_where_the_machine_lacks_what_others_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(ANY_SIZE["a transposed matrix"], encoding="utf-8")
    source = read_c(str(path))
    monkeypatch.setattr("dspgen.offchip.tile_search.turns", lambda func, *_: [*layouts(func), Turned(func, {})])

    def judge(blocks: Blocks, enough: Sequence[float] = ()) -> list[float | None]:
        return [math.inf if any(w.layout for w in blocks.windows) else None for _ in blocks.pieces]

    def turned(judge: Judge | None) -> bool:
        (nest,) = flat(next(in_turn(source, source, SMALL, ONE, judge)).nests)
        return any(w.layout for w in nest.windows)

    assert turned(None) and not turned(judge)


def test_a_transposed_matrix_takes_as_long_as_its_bytes(tmp_path: Path) -> None:
    text = CHOSEN["a transposed matrix"]
    assert run(text, tmp_path, options=Options(data="ddr")).efficiency > 0.85
    slow = load_target("ft_m7002", [ROOM, ("dma.transposed_bytes_per_cycle", "4")])
    assert run(text, tmp_path, slow).efficiency < 0.5


def test_rows_stay_as_they_are_where_that_is_as_good(tmp_path: Path) -> None:
    text = """void f(const float a[50][40], const float b[40][32], float c[50][32]) {
        for (int i = 0; i < 50; i++) for (int j = 0; j < 32; j++) for (int k = 0; k < 40; k++)
            c[i][j] += a[i][k] * b[k][j]; }"""
    assert "turns round" not in told(run(text, tmp_path))


def test_an_engine_that_does_not_transpose_is_not_asked_to(tmp_path: Path) -> None:
    text = CHOSEN["a product with a transposed matrix"]
    assert "turns round" not in told(run(text, tmp_path, load_target("ft_mt3000")))


def random_nest(draw: random.Random) -> str:
    """Two or three loops over arrays that they step through in any order, in strides, backwards."""
    names = "ijk"[: draw.randint(2, 3)]
    extents = {n: draw.choice((5, 12, 17, 33, 48)) for n in names}
    kind = draw.choice(("float", "float", "int", "short"))
    arrays: dict[str, str] = {}

    def access(name: str, among: str, most: int) -> str:
        place, shape = [], []
        for n in draw.sample(among, min(len(among), draw.randint(1, most))):
            stride, shift = draw.choice((1, 1, 1, 2, 3)), draw.randint(0, 2)
            index = f"{stride} * {n} + {shift}" if draw.random() < 0.8 else f"{extents[n] - 1} - {n}"
            place.append(index)
            shape.append(stride * -(-(stride * extents[n] + shift) // stride))
        arrays[name] = f"{kind} {name}" + "".join(f"[{n}]" for n in shape)
        return name + "".join(f"[{i}]" for i in place)

    written = draw.sample(names, draw.randint(1, len(names)))
    target = access("y", "".join(written), 3)
    if draw.random() < 0.7:
        target = "y" + "".join(f"[{n}]" for n in written)
        arrays["y"] = f"{kind} y" + "".join(f"[{extents[n]}]" for n in written)
    terms = [access(name, names, 2) for name in "ab"[: draw.randint(1, 2)]]
    value = draw.choice((" * ", " + ", " - ")).join(terms)
    sign = draw.choice(("+=", "+=", "="))
    loops = " ".join(f"for (int {n} = 0; {n} < {extents[n]}; {n}++)" for n in names)
    params = ", ".join((("" if name == "y" else "const ") + text) for name, text in arrays.items())
    return f"void f({params}) {{ {loops} {target} {sign} {value}; }}"


def forced(draw: random.Random) -> object:
    """Tries views first, whatever they are worth."""

    def turns(func: Func, *_: object) -> list[Turned]:
        found = list(layouts(func))
        return [*draw.sample(found, len(found)), Turned(func, {})]

    return turns


def fuzzed(seeds: Iterator[int] | range, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many nests had arrays turned round."""
    turned = 0
    for seed in seeds:
        draw = random.Random(seed)
        monkeypatch.setattr("dspgen.offchip.tile_search.turns", forced(draw))
        target = load_target("ft_m7002", [("memories.AM.size", draw.choice(("4096", "8192", "16384")))])
        text = random_nest(draw)
        try:
            turned += "turns round" in told(run(text, folder, target))
        except NoSchedule as refusal:
            assert "registers" in str(refusal) or "fit" in str(refusal), text
    return turned


@pytest.mark.parametrize("part", range(4))
def test_random_nests_on_arrays_turned_round(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fuzzed(range(part, 32, 4), tmp_path, monkeypatch)
