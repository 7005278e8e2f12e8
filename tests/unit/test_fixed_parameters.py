"""`-D NAME=V` makes an integer parameter a constant: of loops, extents and the emitted function's signature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.frontend.read import read_c

Run = Callable[..., tuple[int, str, str]]

SCALE = """\
static int twice(int v) { return 2 * v; }
void scale(int n, float s, float x[n], int m, float y[n]) {
  for (int i = 0; i < n; i++) y[i] = s * x[i] + twice(m);
}
"""
ASSIGNED = (
    "int half(int n, const int x[64]) { n = n / 2; int s = 0; for (int i = 0; i < n; i++) s += x[i]; return s + n; }"
)
MANY = """\
void many(int n, float a[64], float b[64], float c[64], float d[64], float e[64], float f[64], float g[64], float h[64])
{ for (int i = 0; i < n; i++) a[i] = b[i] + c[i] + d[i] + e[i] + f[i] + g[i] + h[i]; }
"""
WAYS = {
    "onchip": ("--isa", "ft_m7002", "--data", "onchip"),
    "ddr": ("--isa", "ft_m7002"),
    "mt3000": ("--isa", "ft_mt3000", "--data", "onchip"),
    "lite": ("--isa", "ft_lite", "--data", "onchip"),
    "hexagon": ("--isa", "hexagon_v66"),
    "few": ("--isa", "tests/isa/few.toml"),
    "cpu": ("--backend", "cpu"),
}
INTEGERS = ("hexagon",)


def write(folder: Path, text: str) -> str:
    path = folder / "kernel.c"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_it_is_no_parameter(tmp_path: Path) -> None:
    func = read_c(write(tmp_path, SCALE), function="scale", defines=[("n", "40"), ("m", "-3")])
    assert [p.name for p in func.params] == ["s", "x", "y"] and func.params[1].shape == (40,)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("text", "defines"),
    [(SCALE, {"n": 40, "m": -3}), (ASSIGNED, {"n": 33}), (MANY, {"n": 50})],
    ids=("scale", "assigned", "many"),
)
def test_the_kernel_agrees(
    text: str, defines: dict[str, int], way: str, dspgen: Run, tmp_path: Path, root: Path
) -> None:
    if way in INTEGERS:
        text = text.replace("float", "int")
    road = [str(root / word) if word.endswith(".toml") else word for word in WAYS[way]]
    fixed = [word for name, value in defines.items() for word in ("-D", f"{name}={value}")]
    if way == "few" and text == MANY:
        pytest.skip("more arrays than registers of arguments")
    status, _, err = dspgen("run", write(tmp_path, text), *road, *fixed, "--json")
    assert (status, err) == (0, "")


def test_the_header(dspgen: Run, tmp_path: Path) -> None:
    emitted = ["--emit", "h,json", "-o", str(tmp_path)]
    assert dspgen("compile", write(tmp_path, SCALE), "--isa", "ft_m7002", "-D", "n=40", "-D", "m=1", *emitted)[0] == 0
    header = (tmp_path / "scale.h").read_text()
    assert "scale(float s, float *DSPGEN_RESTRICT x, float *DSPGEN_RESTRICT y)" in header
    assert '"n"' not in (tmp_path / "scale.json").read_text()


@pytest.mark.parametrize(("value", "status"), [(np.int32(40), 0), (np.int32(41), 2), (np.ones(2, np.int32), 2)])
def test_inputs_that_give_it_too(value: object, status: int, dspgen: Run, tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", n=value)
    road = ["--isa", "ft_m7002", "-D", "n=40", "--inputs", str(tmp_path / "in.npz")]
    found, _, err = dspgen("run", write(tmp_path, SCALE), *road)
    assert found == status
    assert ("error[DG508]: --inputs has another value of 'n' than -D n=40" in err) == (status == 2)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("s", "1", "-D can fix integer parameters only, but 's' isn't one"),
        ("s", "0.5", "-D s=0.5: 's' is a parameter, and only integers can be fixed"),
        ("v", "2", "-D v=2: 'v' is a parameter in this file, but none of scale"),
        ("x", "3", "-D can fix integer parameters only, but 'x' is an array"),
    ],
)
def test_what_can_not_be_fixed(name: str, value: str, says: str, tmp_path: Path) -> None:
    text = SCALE.replace("float x[n]", "row x")
    with pytest.raises(SourceError) as caught:
        read_c(write(tmp_path, f"typedef float row[40];\n{text}"), function="scale", defines=[(name, value)])
    assert caught.value.problems[0].code == "DG022" and says in caught.value.problems[0].message
