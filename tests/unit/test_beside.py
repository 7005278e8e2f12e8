"""Parts of a compilation in processes beside each other: the same results as one after the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dspgen.options import Options
from dspgen.pipeline import compile_file
from dspgen.target.model import Target
from plant_core.beside import beside, forks, limit_processes

STAGES = """
void stages(float a[64], float b[64], float c[64], float d[64], float e[64], float f[64])
{
  for (int i = 0; i < 63; i++) b[i] = a[i] + a[i + 1];
  for (int i = 0; i < 64; i++) c[i] = b[63 - i] * a[i];
  for (int i = 0; i < 32; i++) d[i] = c[2 * i] - c[2 * i + 1];
  for (int i = 0; i < 32; i++) e[i] = d[i] * d[i] + b[i];
  for (int i = 0; i < 31; i++) f[i] = e[i] + e[i + 1];
  for (int i = 0; i < 31; i++) f[i] = f[i] * 0.5f;
}
"""
PRODUCT = """
void product(float A[70][40], float B[40][70], float C[70][70])
{
  for (int i = 0; i < 70; i++)
    for (int j = 0; j < 70; j++)
      for (int k = 0; k < 40; k++)
        C[i][j] += A[i][k] * B[k][j];
}
"""


@pytest.fixture
def several(one_process: None) -> Iterator[None]:
    limit_processes(2)
    yield
    limit_processes(1)


def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


@pytest.mark.usefixtures("several")
def test_results_come_in_order_from_other_processes() -> None:
    found = beside([partial(square, k) for k in range(7)])
    assert [n for n, _ in found] == [k * k for k in range(7)]
    assert os.getpid() not in {process for _, process in found} and len({process for _, process in found}) == 7


@pytest.mark.usefixtures("several")
def test_what_raises_does_so_here() -> None:
    with pytest.raises(ZeroDivisionError):
        beside([partial(square, 2), lambda: (1 // 0, 0)])


@pytest.mark.usefixtures("several")
def test_what_can_not_be_sent_is_done_here() -> None:
    found = beside([lambda: lambda: 1, lambda: lambda: 2])
    assert [f() for f in found] == [1, 2]


@pytest.mark.usefixtures("several")
def test_forked_processes_fork_no_more() -> None:
    def inner() -> list[int]:
        assert forks()
        return [process for _, process in beside([partial(square, k) for k in range(3)])]

    for processes in beside([inner, inner]):
        assert len(set(processes)) == 1


def test_one_process_is_this_one() -> None:
    assert not forks() and {process for _, process in beside([partial(square, k) for k in range(3)])} == {os.getpid()}


@pytest.mark.parametrize(
    ("text", "options"),
    [(STAGES, Options()), (PRODUCT, Options(data="ddr", tile="one"))],
    ids=["nests", "pieces of a nest in blocks"],
)
def test_code_is_the_same(
    text: str, options: Options, tmp_path: Path, ft_m7002: Target, several: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(text, encoding="utf-8")
    used: list[int] = []

    def counted(parts: list[Callable[[], object]]) -> list[object]:
        used.append(len(parts))
        return beside(parts)

    for module in ("choosing", "pipeline"):
        monkeypatch.setattr(f"dspgen.{module}.beside", counted)
    stages: list[str] = []
    several_made = compile_file(str(path), ft_m7002, options, on_stage=lambda name, value: stages.append(name))
    assert max(used) > 1
    limit_processes(1)
    alone: list[str] = []
    one_made = compile_file(str(path), ft_m7002, options, on_stage=lambda name, value: alone.append(name))
    assert several_made.asm == one_made.asm and several_made.remarks == one_made.remarks and stages == alone
