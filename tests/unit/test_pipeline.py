"""The road as a whole: what it must refuse, with place and remedy, and how much stack the simulator leaves."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from dspgen.asmir.ir.function import Instr
from dspgen.backend.stages import cycles_of
from dspgen.driver.pipeline import _Pieces, compile_file, run_file
from dspgen.errors import DspgenError
from dspgen.frontend.read import read_c
from dspgen.offchip.loop_variants import cuts
from dspgen.options import Options
from dspgen.sched.graph.synthesized_instrs import Kit
from dspgen.sched.machine.target_facts import Facts
from dspgen.sched.straight.prepare import straight_ops
from dspgen.target.isa.model import Target
from plant_core.analysis.rectangular_hull import Boxes
from plant_core.normalize.pipeline import canonical
from plant_core.scratchpad.tile_nest import blocks as cut_in_blocks
from plant_core.scratchpad.tiled_func import flat
from tests.support.any_size import verified_at

REFUSED = {
    "call": ("#include <math.h>\nvoid k(float b[9]) { for (int i = 0; i < 9; i++) b[i] = expf(b[i]); }", "DG331"),
    "long accumulator": (
        "void k(const int a[9], int c[1]) { long s = 0; for (int i = 0; i < 9; i++) s += (long)a[i] * "
        "a[i]; c[0] = (int)(s >> 9); }",
        "DG331",
    ),
    "long arrays": ("void k(long a[9]) { for (int i = 0; i < 9; i++) a[i] += 1; }", "DG300"),
    "bytes": ("void k(signed char a[9]) { for (int i = 0; i < 9; i++) a[i] += 1; }", "DG300"),
    "long size": ("void k(long n, float a[9]) { for (long i = 0; i < n; i++) a[i] = 1; }", "DG330"),
    "stack": (
        "void k(float a[8000]) { float t[300000]; for (int i = 0; i < 8000; i++) t[i * 35] = a[i]; for "
        "(int i = 0; i < 8000; i++) a[i] = t[279965 - i * 35]; }",
        "DG305",
    ),
}


def test_missing_types_are_found_before_anything_is_searched(tmp_path: Path, ft_m7002: Target) -> None:
    text = "void k(const unsigned char a[9], short b[9]) { for (int i = 0; i < 9; i++) b[i] = a[i]; }"
    stages: list[str] = []
    with pytest.raises(DspgenError, match="can't load or store elements of 'a', of type u8"):
        compile_file(written(tmp_path, text), ft_m7002, Options(), on_stage=lambda name, _: stages.append(name))
    assert stages == ["scop"]


def written(folder: Path, text: str) -> str:
    path = folder / "k.c"
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_have_a_place_and_a_remedy(tmp_path: Path, ft_m7002: Target, name: str) -> None:
    text, code = REFUSED[name]
    with pytest.raises(DspgenError) as refusal:
        compile_file(written(tmp_path, text), ft_m7002, Options())
    assert refusal.value.problems[0].code == code
    assert all(p.loc is not None and p.loc.file.endswith("k.c") and p.remedy for p in refusal.value.problems)


def test_local_arrays_keep_clear_of_parameters(tmp_path: Path, ft_m7002: Target) -> None:
    """Both would fit the memory of the stack, but not together."""
    memory = ft_m7002.memory(ft_m7002.abi.stack_memory)
    count = memory.size * 9 // 16 // 4
    text = f"""
    void k(float a[{count}])
    {{
      float t[{count}];
      for (int i = 0; i < {count}; i++)
        t[i] = 3 * a[i];
      for (int i = 0; i < {count}; i++)
        a[i] = t[{count - 1} - i];
    }}
    """
    assert run_file(written(tmp_path, text), ft_m7002, Options()).verified


# Programs that once went wrong, with what their parameters are.
RIGHT: dict[str, tuple[str, dict[str, np.ndarray | int | float]]] = {
    "scatter in one of two nests": (
        """
        void k(const float a[20], const int x[20], float b[20], float c[20])
        {
          for (int i = 0; i < 20; i++)
            c[i] = a[i];
          for (int i = 0; i < 20; i++)
            b[x[i]] = a[i];
        }
        """,
        {"x": np.arange(20, dtype=np.int32)[::-1].copy()},
    ),
    "places that depend on parameters, in few iterations": (
        """
        void k(int s, int t, const int x[30], const int a[60], int b[60])
        {
          for (int i = 0; i < 4; i++)
            if (a[i + s] > 0)
              b[i + t] = a[3 * i] + b[x[i]];
        }
        """,
        {"x": np.arange(30, dtype=np.int32)[::-1].copy(), "s": 3, "t": 2},
    ),
    "a parameter that nothing depends on but a subscript": (
        "void k(int s, const int a[90], short b[90]) { for (int i = 0; i < 9; i++) if (a[i] > -3) b[i] = b[i * s]; }",
        {"s": 2},
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_once_went_wrong(tmp_path: Path, ft_m7002: Target, name: str) -> None:
    text, inputs = RIGHT[name]
    assert run_file(written(tmp_path, text), ft_m7002, Options(), inputs=inputs).verified


ONE_VERDICT = {
    "an extremum and its place": (
        "void k(const int a[20], int b[2]) {\n int m = a[0], p = 0;\n for (int i = 0; i < 20; i++)\n if (a[i] > m) {\n"
        "m = a[i];\n p = i;\n }\n b[0] = m;\n b[1] = p;\n }"
    ),
    "statements around a loop": (
        "void k(const float a[3], float b[5]) {\n float s = 0;\n for (int i = 0; i < 3; i++)\n s += a[i];\n"
        " b[4] = s;\n }"
    ),
}


@pytest.mark.parametrize("name", ONE_VERDICT)
def test_each_loop_has_one_verdict(tmp_path: Path, ft_m7002: Target, name: str) -> None:
    remarks = compile_file(written(tmp_path, ONE_VERDICT[name]), ft_m7002, Options()).remarks
    assert sum(r.kind in ("vectorized", "not-vectorized") for r in remarks) == 1


def test_code_is_masked_only_while_lanes_may_be_off(tmp_path: Path, ft_m7002: Target) -> None:
    """What makes a lane condition before the mask is set, and after all lanes are on again, writes whole registers."""
    body = "for (int i = 0; i < 900; i++) for (int j = 0; j < 9; j++) y[i][j] = x[i][j] * x[i][j];"
    text = f"void f(const float x[900][16], float y[900][9]) {{ {body} }}"
    code = compile_file(written(tmp_path, text), ft_m7002, Options(tile="one", rewrite="off"))
    facts = Facts(ft_m7002)
    ops = straight_ops([i for i in code.assembly.body if isinstance(i, Instr)], facts, Kit(facts), rename=False)
    mask = set(facts.physical(ft_m7002.mask_register or ""))
    setters = [k for k, op in enumerate(ops) if any(a in mask for a, _ in op.writes)]
    assert len(setters) == 2
    masked = [k for k, op in enumerate(ops) if op.masked and k not in setters]
    assert masked == [k for k in range(setters[0] + 1, setters[1]) if ops[k].ordered]


def test_a_piece_may_be_given_more_than_a_call_passes(tmp_path: Path, ft_m7002: Target) -> None:
    """Seven arrays, and how many whole and part groups of iterations there are: nine, where calls pass eight."""
    names = "abcdeg"
    text = f"""void f(int n, {", ".join(f"const float {x}[n]" for x in names)}, float r[n]) {{
        for (int i = 0; i < n; i++) r[i] = {" + ".join(f"{x}[i]" for x in names)}; }}"""
    source, options = read_c(written(tmp_path, text)), Options(data="ddr")
    func = canonical(source, reassoc=True, symbolic=True)
    made = next(next(cuts(source, func, ft_m7002, options, None, lambda _: 0.0)))
    (blocks,) = flat(made.nests)
    assert max(len(piece.params) for piece in blocks.pieces) == 9
    pieces = _Pieces(ft_m7002, options, lambda stage, value: None)
    assert all(cycles is not None and math.isfinite(cycles) for cycles in pieces.cycles(blocks))


TRIANGLE = """void f(const float x[64][64], float y[64][64]) {
  for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) if (j <= i + 3) y[i][j] = 2 * x[i][j]; }"""


def test_pieces_that_take_clearly_more_than_is_enough_are_given_up(tmp_path: Path, ft_m7002: Target) -> None:
    """But made, should they be wanted. A piece is counted at the block in the middle of those that it is for."""
    source, options = read_c(written(tmp_path, TRIANGLE)), Options(data="ddr", tile="one")
    func = canonical(source, reassoc=True)
    made = cut_in_blocks(Boxes(func, ft_m7002.lanes, set()), (8, 64), (0,), reassoc=True)
    assert made.begins(0) == {"i_first": 32}
    pieces = _Pieces(ft_m7002, options, lambda stage, value: None)
    assert pieces.cycles(made, [10.0]) == [math.inf]
    (cycles,) = pieces.cycles(made)
    (code,) = pieces.code(made)
    assert cycles is not None and cycles == cycles_of(code, ft_m7002, known={"i_first": 32})
    assert cycles != cycles_of(code, ft_m7002, known={"i_first": 56})
    assert _Pieces(ft_m7002, options, lambda stage, value: None).cycles(made, [2 * cycles]) == [cycles]


@pytest.mark.slow
def test_blocks_that_lack_registers_all_together_have_single_vectors(tmp_path: Path, ft_m7002: Target) -> None:
    text = """void f(int n, int m, const float a[n][m], const float b[n][m], const float c[n], float r[n][m]) {
        for (int i = 0; i < n; i++) for (int j = 0; j < m; j++) r[i][j] = a[i][j] * b[i][j] + c[i]; }"""
    result = run_file(written(tmp_path, text), ft_m7002, Options(data="ddr"), inputs={"n": 11, "m": 37})
    assert result.verified


@pytest.mark.parametrize("limit", [0.5, 2.0], ids=["found", "not found"])
def test_a_search_of_any_size(limit: float, tmp_path: Path, ft_m7002: Target) -> None:
    """What its iterations hand on is an array of any size, which the function alone has."""
    text = f"""void f(int n, const float a[n], int r[1]) {{ r[0] = -1;
        for (int i = 0; i < n; i++) if (a[i] > {limit}f) {{ r[0] = i; break; }} }}"""
    verified_at(text, tmp_path, ft_m7002, Options(data="ddr"), [{"n": n} for n in (0, 1, 40)])
