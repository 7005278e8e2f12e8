"""Random kernels from C text to this computer's code: schedules, vectors and threads keep what the program means."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cpu_batch import Setting, run

SETTINGS = {
    "reassoc": Setting(),
    "strict": Setting(fp="strict"),
    "threads": Setting(threads=2),
    "strict_threads": Setting(fp="strict", threads=2),
    "narrow": Setting(vector_bytes=16),
    "half": Setting(vector_bytes=32),
    "clang": Setting(compiler="clang++-19"),
}


@pytest.mark.parametrize("name,first", [("reassoc", 0), ("strict", 100)])
def test_random_kernels(name: str, first: int, tmp_path: Path) -> None:
    run(range(first, first + 10), tmp_path, SETTINGS[name])


@pytest.mark.slow
@pytest.mark.parametrize("first", (1000, 2000))
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if s.compiler is None else pytest.mark.needs_tool(s.compiler))
        for n, s in SETTINGS.items()
    ],
)
def test_many_random_kernels(name: str, first: int, tmp_path: Path) -> None:
    run(range(first, first + 40), tmp_path, SETTINGS[name])
