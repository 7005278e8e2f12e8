"""The road as a whole: what it must refuse, with place and remedy, and how much stack the simulator leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.pipeline import compile_file, run_file
from dspgen.target.model import Target

REFUSED = {
    "data in bounds": ("void k(const int n[1], float b[20]) { for (int i = 0; i < n[0]; i++) b[i] = 1; }", "DG010"),
    "gather": (
        "void k(const float a[16], const int x[9], float b[9]) {\n for (int i = 0; i < 9; i++) b[i] = a[x[i] & 15]; }",
        "DG332",
    ),
    "call": ("#include <math.h>\nvoid k(float b[9]) { for (int i = 0; i < 9; i++) b[i] = expf(b[i]); }", "DG331"),
    "long accumulator": (
        "void k(const int a[9], int c[1]) { long s = 0; for (int i = 0; i < 9; i++) s += (long)a[i] * "
        "a[i]; c[0] = (int)(s >> 9); }",
        "DG331",
    ),
    "long arrays": ("void k(long a[9]) { for (int i = 0; i < 9; i++) a[i] += 1; }", "DG300"),
    "bytes": ("void k(signed char a[9]) { for (int i = 0; i < 9; i++) a[i] += 1; }", "DG300"),
    "long size": ("void k(long n, float a[9]) { for (long i = 0; i < n; i++) a[i] = 1; }", "DG330"),
    "parameters": (
        f"void k({', '.join(f'float p{k}[4]' for k in range(9))}) {{ for (int i = 0; i < 4; i++) p0[i] = p8[i]; }}",
        "DG306",
    ),
    "stack": (
        "void k(float a[40]) { float t[300000]; for (int i = 0; i < 40; i++) t[i * 7000] = a[i]; for "
        "(int i = 0; i < 40; i++) a[i] = t[273000 - i * 7000]; }",
        "DG305",
    ),
}


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
