"""The emitted text: names kept, accumulators in registers, shared values computed once."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.cpu.emit import emit
from backends.cpu.ir.names import identifier
from plant_core.ir.accesses import add, scaled
from plant_core.ir.accesses import integer as number
from plant_core.ir.func import Iter
from plant_core.ir.loop_tree import For, Leaf, Tile
from plant_core.ir.scheduled import as_written
from plant_core.scan import scan
from tests.support.cpu_programs import check, read

MATMUL = """void matmul(float C[16][32], const float A[16][50], const float B[50][32], float alpha) {
    for (int i = 0; i < 16; i++) for (int j = 0; j < 32; j++) for (int k = 0; k < 50; k++)
        C[i][j] += alpha * A[i][k] * B[k][j]; }"""

INNER = """\
            for (long k = 0; k < 50; k++) {
                const float s0 = alpha * A[2 * it][k];
                const f32x16 B_0 = load_f32x16(&B[k][32 * jt]);
                C_0 += s0 * B_0;
                const f32x16 B_1 = load_f32x16(&B[k][32 * jt + 16]);
                C_1 += s0 * B_1;
                const float s1 = alpha * A[2 * it + 1][k];
                C_2 += s1 * B_0;
                C_3 += s1 * B_1;
            }
            store(&C[2 * it][32 * jt], C_0);
            store(&C[2 * it][32 * jt + 16], C_1);
            store(&C[2 * it + 1][32 * jt], C_2);
            store(&C[2 * it + 1][32 * jt + 16], C_3);
"""


def test_matmul_keeps_its_accumulators_in_registers(tmp_path: Path) -> None:
    func = read(tmp_path, MATMUL)
    i, j = add(scaled(Iter("it"), 2), Iter("i")), add(scaled(Iter("jt"), 32), Iter("j"))
    leaf = Leaf(func.comps[0], (i, j, Iter("k")), Tile((1, 1, 1)))
    lanes = For("j", number(0), number(32), 1, leaf, "vectorize")
    rows = For("i", number(0), number(2), 1, lanes, "unroll_explicit")
    inner = For("k", number(0), number(50), 1, rows)
    text = emit(func, For("jt", number(0), number(1), 1, For("it", number(0), number(8), 1, inner)))
    assert INNER in text
    assert "            f32x16 C_3 = load_f32x16(&C[2 * it + 1][32 * jt + 16]);\n" in text


def test_names_and_places(tmp_path: Path) -> None:
    func = read(tmp_path, MATMUL)
    text = emit(func, scan(as_written(func)))
    head = "void matmul(float (*__restrict C)[32], const float (*__restrict A)[50], const float (*__restrict B)[32]"
    assert f'extern "C" {head}, float alpha) {{' in text
    assert "// S0 (line 3)" in text
    assert text == emit(func, scan(as_written(func)))


def test_a_loop_that_may_not_run_touches_nothing(tmp_path: Path) -> None:
    text = """void k(int n, float s[4], const float a[9]) {
        for (int i = 0; i < 4; i++) for (int j = 0; j < n; j++) s[i] += a[j]; }"""
    source = check(tmp_path, text, given={"n": 0})
    assert "if (0 < n) {" in source
    check(tmp_path, text, given={"n": 9})


def test_bounds_tell_cells_apart(tmp_path: Path) -> None:
    """A[i][j] isn't A[i][k], as k < j; with k <= j it may be."""
    text = """void lu(float A[20][20]) { for (int i = 0; i < 20; i++) for (int j = 0; j < i; j++)
        for (int k = 0; k REL j; k++) A[i][j] -= A[i][k] * A[k][j]; }"""
    assert "A_0 -=" in check(tmp_path, text.replace("REL", "<"))
    assert "A_0 -=" not in check(tmp_path, text.replace("REL", "<="))


def test_guarded_cells_stay_in_memory(tmp_path: Path) -> None:
    text = """void k(float s[1], const float a[30]) {
        for (int i = 0; i < 30; i++) if (a[i] > 0.0f) s[0] = s[0] * 0.5f + a[i]; }"""
    check(tmp_path, text)


def test_zeros_of_both_signs(tmp_path: Path) -> None:
    text = """void k(float r[8], float q[8], const float a[8]) {
        for (int i = 0; i < 8; i++) { r[i] = 1.0f / (a[i] * 0.0f); q[i] = 1.0f / (a[i] * -0.0f); } }"""
    check(tmp_path, text)


@pytest.mark.parametrize("name", ["class", "class_", "load", "f32x16", "expf", "plant_A", "__x", "A"])
def test_identifiers_stay_apart(name: str) -> None:
    assert identifier(name) == name or identifier(name) == f"{name}_"
    assert identifier(name) != identifier(f"{name}_")
