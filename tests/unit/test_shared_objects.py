"""Shared objects are mapped no longer than they are used."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.cpu import build_cpu, compile_cpu
from dspgen.driver.pipeline import compile_file
from dspgen.options import Options
from dspgen.oracle import host_program
from dspgen.sim.run import simulate
from dspgen.target.load import load_target

MAPS = Path("/proc/self/maps")
pytestmark = pytest.mark.skipif(not MAPS.exists(), reason="the system doesn't tell what is mapped")
TEXT = "void k(const int a[16], int y[16]) { for (int i = 0; i < 16; i++) y[i] = a[i] + 1; }\n"
VALUES = {"a": np.arange(16, dtype=np.int32), "y": np.zeros(16, dtype=np.int32)}


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "k.c"
    path.write_text(TEXT, encoding="utf-8")
    return str(path)


def is_mapped(library: Path) -> bool:
    return str(library) in MAPS.read_text(encoding="utf-8")


def test_simulators(source: str, tmp_path: Path) -> None:
    target = load_target("ft_m7002")
    compiled = compile_file(source, target, Options())
    arguments = list(VALUES.items())
    result = simulate(compiled.asm, target, arguments=arguments, engine="native", cache_dir=str(tmp_path))
    assert np.array_equal(result.outputs["y"], VALUES["a"] + 1)
    (library,) = tmp_path.glob("*.so")
    assert not is_mapped(library)


def test_the_user_s_program(source: str) -> None:
    program = host_program(source, compile_cpu(source, Options()).source)
    for _ in range(2):
        assert np.array_equal(program(VALUES)["y"], VALUES["a"] + 1)
        assert not is_mapped(program.library)


def test_kernels_of_this_computer(source: str, tmp_path: Path) -> None:
    kernel = build_cpu(compile_cpu(source, Options()), Options(), cache=tmp_path)
    arrays = {name: array.copy() for name, array in VALUES.items()}
    kernel(**arrays)
    assert np.array_equal(arrays["y"], arrays["a"] + 1)
    path = kernel.path
    assert is_mapped(path)
    del kernel
    gc.collect()
    assert not is_mapped(path)
