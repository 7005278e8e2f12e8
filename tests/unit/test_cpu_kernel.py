"""Building and calling compiled code, and what is said when that can't be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from backends.cpu.build import build
from backends.cpu.kernel import Kernel, compile_cpu
from plant_core.support.location import PlantError
from tests.support.cpu_programs import read

TEXT = """void axpy(int n, float y[8], const float x[8], float a) {
    for (int i = 0; i < n; i++) y[i] += a * x[i]; }"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    folder = tmp_path_factory.mktemp("axpy")
    return compile_cpu(read(folder, TEXT), cache_dir=folder)


def arguments() -> dict[str, Any]:
    return {"n": 5, "y": np.ones(8, np.float32), "x": np.arange(8, dtype=np.float32), "a": 2.0}


def test_call_in_place(kernel: Kernel) -> None:
    given = arguments()
    kernel(**given)
    assert given["y"].tolist() == [1, 3, 5, 7, 9, 1, 1, 1]
    kernel(np.int32(8), given["y"], given["x"], a=np.float32(0))
    assert given["y"].tolist() == [1, 3, 5, 7, 9, 1, 1, 1]


WRONG: list[tuple[str, Any, str]] = [
    ("y", [1.0] * 8, "is a list"),
    ("y", np.ones(8), "is of float64, not float32"),
    ("y", np.ones(7, np.float32), "has shape (7,), not (8,)"),
    ("y", np.ones(16, np.float32)[::2], "isn't contiguous"),
    ("x", np.ones((8, 1), np.float32), "has shape (8, 1), not (8,)"),
    ("n", 2.5, "not a number that i32 holds"),
    ("n", 1 << 40, "not a number that i32 holds"),
    ("a", "2", "not a number that f32 holds"),
]


@pytest.mark.parametrize("name,value,message", WRONG)
def test_wrong_argument(kernel: Kernel, name: str, value: Any, message: str) -> None:
    with pytest.raises(PlantError) as error:
        kernel(**(arguments() | {name: value}))
    assert f"'{name}'" in error.value.message and message in error.value.message
    assert error.value.code == "DG622"


def test_read_only_output(kernel: Kernel) -> None:
    given = arguments()
    given["x"].setflags(write=False)
    kernel(**given)
    given["y"].setflags(write=False)
    with pytest.raises(PlantError, match="'y' is read-only"):
        kernel(**given)


def test_shared_memory(kernel: Kernel) -> None:
    given = arguments()
    with pytest.raises(PlantError, match="'y' and 'x' share memory"):
        kernel(**(given | {"x": given["y"]}))


def test_wrong_calls(kernel: Kernel) -> None:
    given = arguments()
    with pytest.raises(PlantError, match="lacks 'a'"):
        kernel(given["n"], given["y"], given["x"])
    with pytest.raises(PlantError, match="'z', which it doesn't have"):
        kernel(**given, z=1)
    with pytest.raises(PlantError, match="'n', twice"):
        kernel(5, **given)
    with pytest.raises(PlantError, match="5 arguments"):
        kernel(1, 2, 3, 4, 5)
    kernel.threads = 0
    with pytest.raises(PlantError, match="0 threads"):
        kernel(**given)
    kernel.threads = 2
    kernel(**given)


def test_cached_by_content(tmp_path: Path) -> None:
    source = 'extern "C" void f(float *x) { x[0] = 1; }\n'
    made = build(source, cache_dir=tmp_path)
    stamp = made.stat().st_mtime_ns
    assert build(source, cache_dir=tmp_path) == made and made.stat().st_mtime_ns == stamp
    assert build(source, fp="strict", cache_dir=tmp_path) != made


def test_build_errors(tmp_path: Path) -> None:
    with pytest.raises(PlantError, match="isn't there") as error:
        build("", compiler="no-such-compiler", cache_dir=tmp_path)
    assert error.value.code == "DG610" and error.value.remedy
    with pytest.raises(PlantError, match="rejects the code") as error:
        build("int f( {", cache_dir=tmp_path)
    assert error.value.code == "DG613"
    with pytest.raises(PlantError, match="rejects its options"):
        build("", march="no-such-machine", cache_dir=tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(PlantError, match="can't be kept"):
        build("int x;", cache_dir=tmp_path / "file")


def test_not_the_kernel(tmp_path: Path) -> None:
    func = read(tmp_path, TEXT)
    with pytest.raises(PlantError, match="isn't the code of 'axpy'"):
        Kernel(func, build("int x;", cache_dir=tmp_path))
