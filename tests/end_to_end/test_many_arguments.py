"""Functions with more arguments than the machine passes in registers, as a caller calls them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dspgen.backend import stages
from dspgen.driver.pipeline import compile_file
from dspgen.emit.header import emit_header, signature_of
from dspgen.emit.manifest import manifest
from dspgen.options import Data, Options
from dspgen.target.load import load_target
from dspgen.target.query.arguments import by_structure
from tests.generators.arguments import many_arguments
from tests.support.any_size import verified_at

OWN = Path(__file__).parent.parent / "isa"
MACHINES = ("ft_m7002", "ft_mt3000", "ft_lite", "hexagon_v66", *(str(OWN / f"{n}.toml") for n in ("quad", "scalar")))
QUICK = Options(tile="one", rewrite="off")  # how arguments are passed is the question here
SIZES = ({"n": 0}, {"n": 3}, {"n": 37})


@pytest.mark.parametrize("name", MACHINES)
def test_on_chip(name: str, tmp_path: Path) -> None:
    target = load_target(name)
    seed = MACHINES.index(name)
    text = many_arguments(seed, 9 + 2 * (seed % 3), "fis", sized=False, result=seed % 2 == 1)
    verified_at(text, tmp_path, target, QUICK, [{}])


@pytest.mark.parametrize("name", [m for m in MACHINES if load_target(m).dma is not None])
def test_off_chip(name: str, tmp_path: Path) -> None:
    text = many_arguments(20 + MACHINES.index(name), 9, "fis", sized=False, result=True)
    verified_at(text, tmp_path, load_target(name), Options(data="ddr"), [{}])


SIZED = """\
void k(int n, float y[n], float p, short s, unsigned char c, double q, float r, int m, int l, int o) {
  for (int i = 0; i < n; i++) y[i] = y[i] * p + (float)q + (float)(s + c + m + l - o) + r;
}
"""


@pytest.mark.parametrize("data", ["onchip", "ddr"])
def test_sizes_and_a_double(data: Data, tmp_path: Path) -> None:
    verified_at(SIZED, tmp_path, load_target("ft_mt3000"), Options(data=data), SIZES)


@pytest.mark.slow
@pytest.mark.parametrize("data", ["onchip", "ddr"])
def test_sizes_and_doubles(data: Data, tmp_path: Path) -> None:
    text = many_arguments(42, 11, "fid", sized=True)
    assert "double" in text
    verified_at(text, tmp_path, load_target("ft_mt3000"), Options(data=data), SIZES)


ALL_KINDS = """\
void k(int n, float y[12], const float a[12], float p, short s, const float b[12], unsigned char c, float q, int m,
       const int d[12]) {
  for (int i = 0; i < 12; i++) y[i] = a[i] * p + b[i] * q + (float)(d[i] + s + c + m * n);
}
"""


@pytest.mark.parametrize("name", ["ft_m7002", "ft_mt3000"])
def test_the_header_s_structure_is_what_is_read(name: str, tmp_path: Path) -> None:
    """The manifest tells the offsets that the host's compiler gives the header's structure, and the code reads them."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    assert compiler is not None
    target = load_target(name)
    path = tmp_path / "k.c"
    path.write_text(ALL_KINDS, encoding="utf-8")
    compiled = compile_file(str(path), target, Options())
    verified_at(ALL_KINDS, tmp_path, target, Options(), [{"n": -3, "s": -7, "c": 200, "m": 5}])
    signature = signature_of(compiled.source)
    assert by_structure(signature.places(target))
    told = manifest(compiled.scheduled, target, signature)
    (tmp_path / "k.h").write_text(emit_header(signature, target, compiled.conditions), encoding="utf-8")
    structure, parameters = told["structure"], told["parameters"]
    assert isinstance(structure, dict) and isinstance(parameters, list)
    checks = [
        f'_Static_assert(offsetof(struct k_args, {p["name"]}) == {p["structure_offset"]}, "");' for p in parameters
    ]
    checks.append(f'_Static_assert(sizeof(struct {structure["name"]}) == {structure["bytes"]}, "");')
    text = "\n".join(["#include <stddef.h>", '#include "k.h"', *checks, "void use(struct k_args *a) { k(a); }"])
    (tmp_path / "use.c").write_text(text + "\n", encoding="utf-8")
    subprocess.run([compiler, "-Wall", "-Werror", "-c", "use.c", "-o", "use.o"], check=True, cwd=tmp_path)
    assert all(f"{structure['register']}+{p['structure_offset']}" in compiled.asm for p in parameters)


def test_parts_of_functions_with_their_arguments_in_a_structure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What loads them is no part of the code that is taken over into the function."""
    monkeypatch.setattr(stages, "with_arguments", lambda target, wide: target)
    text = many_arguments(60, 10, "fi", sized=False)
    verified_at(text, tmp_path, load_target("ft_m7002"), Options(data="ddr"), [{}])
