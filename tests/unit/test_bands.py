"""Tiles of loops that dependences go back along in the text: they leave the same arrays as the nest."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from dspgen.tiling.loops.loop_nests import nests
from plant_core.analysis.rectangular_hull import Boxes, NoBlocks
from plant_core.scratchpad.permutable_bands import bands
from plant_core.scratchpad.tile_nest import blocks
from tests.generators.repeated import repeated
from tests.unit.test_blocks import GRANULE, check_made, read

NESTS = {
    "jacobi": """void f(int a[14], int b[14]) { for (int t = 0; t < 5; t++) {
        for (int i = 1; i < 13; i++) b[i] = a[i - 1] + a[i] - a[i + 1];
        for (int i = 1; i < 13; i++) a[i] = b[i - 1] - b[i] + 2 * b[i + 1]; } }""",
    "jacobi in two dimensions": """void f(int a[9][10], int b[9][10]) { for (int t = 0; t < 4; t++) {
        for (int i = 1; i < 8; i++) for (int j = 1; j < 9; j++) b[i][j] = a[i - 1][j] + a[i][j - 1] - a[i + 1][j];
        for (int i = 1; i < 8; i++) for (int j = 1; j < 9; j++) a[i][j] = b[i][j] - b[i][j + 1]; } }""",
    "seidel": """void f(int a[11][9]) { for (int t = 0; t < 4; t++)
        for (int i = 1; i < 10; i++) for (int j = 1; j < 8; j++)
            a[i][j] = a[i - 1][j - 1] - a[i - 1][j + 1] + a[i][j - 1] + a[i + 1][j - 1] - a[i + 1][j + 1]; }""",
    "fields": """void f(int ex[8][9], int ey[8][9], int hz[8][9], const int in[4]) { for (int t = 0; t < 4; t++) {
        for (int j = 0; j < 9; j++) ey[0][j] = in[t];
        for (int i = 1; i < 8; i++) for (int j = 0; j < 9; j++) ey[i][j] -= hz[i][j] - hz[i - 1][j];
        for (int i = 0; i < 8; i++) for (int j = 1; j < 9; j++) ex[i][j] -= hz[i][j] - hz[i][j - 1];
        for (int i = 0; i < 7; i++) for (int j = 0; j < 8; j++)
            hz[i][j] -= ex[i][j + 1] - ex[i][j] + ey[i + 1][j] - ey[i][j]; } }""",
    "a decomposition": """void f(int a[12][12]) { for (int i = 0; i < 12; i++) {
        for (int j = 0; j < i; j++) { for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[k][j]; a[i][j] ^= a[j][j]; }
        for (int j = i; j < 12; j++) for (int k = 0; k < i; k++) a[i][j] -= a[i][k] * a[k][j]; } }""",
    "a decomposition by its last columns": """void f(int a[11][11]) { for (int k = 0; k < 11; k++) {
        for (int i = k + 1; i < 11; i++) a[i][k] ^= a[k][k];
        for (int i = k + 1; i < 11; i++) for (int j = k + 1; j < 11; j++) a[i][j] -= a[i][k] * a[k][j]; } }""",
    "a symmetric decomposition": """void f(int a[11][11]) { for (int i = 0; i < 11; i++) {
        for (int j = 0; j < i; j++) { for (int k = 0; k < j; k++) a[i][j] -= a[i][k] * a[j][k]; a[i][j] ^= a[j][j]; }
        for (int k = 0; k < i; k++) a[i][i] -= a[i][k] * a[i][k];
        a[i][i] ^= 5; } }""",
    "many substitutions": """void f(const int l[11][11], int x[11][7]) { for (int i = 0; i < 11; i++)
        for (int j = 0; j < 7; j++) {
            for (int k = 0; k < i; k++) x[i][j] -= l[i][k] * x[k][j];
            x[i][j] ^= l[i][i]; } }""",
    "a loop in common": """void f(int a[20], int b[20]) { for (int t = 0; t < 5; t++)
        for (int i = 1; i < 19; i++) { b[i] = a[i - 1] + a[i]; a[i] = b[i] - b[i - 1]; } }""",
}


@pytest.mark.parametrize("name", NESTS)
def test_tiles_leave_the_same_arrays(name: str, tmp_path: Path) -> None:
    func = read(NESTS[name], tmp_path)
    draw, tiled = random.Random(name), 0
    for band in bands(func, reassoc=False):
        boxes = Boxes(band.func, GRANULE, axes=band.axes)
        for turn in range(6):
            spans = tuple(draw.randint(1, max(extent // 2, 1)) for _, _, extent in boxes.loops)
            spans = (spans[0],) * len(spans) if turn % 2 else spans
            with contextlib.suppress(NoBlocks):
                check_made(func, blocks(boxes, spans, range(len(spans)), reassoc=False, in_step=True))
                tiled += len(spans) > 1 and max(spans) > 1
    assert tiled


@pytest.mark.parametrize("seed", range(12))
def test_random_nests_in_tiles(seed: int, tmp_path: Path) -> None:
    check_random(seed, tmp_path)


def check_random(seed: int, folder: Path) -> int:
    """How many tilings of a random nest were compared with it."""
    draw, tiled = random.Random(seed), 0
    func = read(repeated(draw), folder)
    for nest in nests(func):
        part = func.with_comps(tuple(func.comp(name) for name in nest.names))
        for band in bands(part, reassoc=False):
            boxes = Boxes(band.func, GRANULE, axes=band.axes)
            for turn in range(3):
                spans = tuple(draw.randint(1, max(extent // 2, 1)) for _, _, extent in boxes.loops)
                spans = (spans[0],) * len(spans) if turn == 2 else spans
                with contextlib.suppress(NoBlocks):
                    check_made(part, blocks(boxes, spans, range(len(spans)), reassoc=False, in_step=True))
                    tiled += 1
    return tiled
