"""Bits of words on lanes that have shifts and sums, but no `and`, `or` and `xor`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.pipeline import run_file
from dspgen.options import Options
from dspgen.target.isa.model import Target

KERNELS = {
    "the low and the high half": "b[i] = (x[i] & 0xffff) + ((x[i] >> 16) & 15) + (y[i] & ~31);",
    "fields of several words": "b[i] = (x[i] & 0xff00) | (y[i] & 0x7f) | (x[i] << 16);",
    "bits by conditions": "int v = 0; if (x[i] > 0) v |= 1; if (y[i] > 7) v |= 2; if (x[i] > y[i]) v |= 4; b[i] = v;",
    "bits set and turned": "b[i] = ((x[i] | 0xf0) ^ 0x3c) + (y[i] ^ 0x80000000) + (~x[i] ^ -1);",
    "signs": "int s = x[i] >> 31; b[i] = ((x[i] ^ s) - s) + (y[i] & ~(y[i] >> 31));",
    "bits that lie apart": "b[i] = (x[i] & 0x10001) + (y[i] ^ 0x80000020);",
}


@pytest.mark.parametrize("name", KERNELS)
def test_bits_are_taken_out_of_words_on_lanes(name: str, tmp_path: Path, ft_m7002: Target) -> None:
    path = tmp_path / "kernel.c"
    loop = f"for (int i = 0; i < 256; i++) {{ {KERNELS[name]} }}"
    path.write_text(f"void f(const int x[256], const int y[256], int b[256]) {{ {loop} }}")
    result = run_file(str(path), ft_m7002, Options())
    assert result.verified
    assert result.cycles < 256  # a scalar takes three cycles for each element
