"""Parts of a compilation in processes beside each other: the same results as one after the other."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from dspgen.driver.pipeline import compile_file
from dspgen.errors import NoSchedule, Problem, TooLarge
from dspgen.options import Options
from dspgen.target.isa.model import Target
from plant_core.support.fork_join import Ahead, beside, forks, limit_processes, unstopped
from plant_core.support.location import IllegalSchedule, Loc

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

# One nest, too large to be unrolled.
FILTER = """
void filter(float a[34][66], float b[32][64])
{
  for (int i = 0; i < 32; i++)
    for (int j = 0; j < 64; j++)
      b[i][j] = a[i][j] + 2.f * a[i + 1][j + 1] + a[i + 2][j + 2] * a[i][j + 2];
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


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.usefixtures("several")
def test_one_result_tells_that_all_are_in_vain(processes: int) -> None:
    limit_processes(processes)
    assert beside([lambda: 1, lambda: None, lambda: 1 // 0], lambda found: found is None) == [None]
    assert beside([lambda: 1, lambda: 2], lambda found: found is None) == [1, 2]


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


@pytest.mark.usefixtures("several")
def test_what_is_begun_ahead_is_another_process_and_comes_back() -> None:
    number, process = Ahead(partial(square, 3)).result()
    assert number == 9 and process != os.getpid()


@pytest.mark.usefixtures("several")
def test_what_can_not_be_sent_or_raises_ahead_is_done_here() -> None:
    assert Ahead(lambda: lambda: 1).result()() == 1
    with pytest.raises(ZeroDivisionError):
        Ahead(lambda: 1 // 0).result()


def test_in_one_process_what_is_begun_ahead_waits_to_be_asked_for() -> None:
    done: list[int] = []
    wanted, dropped = Ahead(lambda: done.append(1)), Ahead(lambda: done.append(2))
    assert not done
    wanted.result()
    dropped.drop()
    assert done == [1]


@pytest.mark.usefixtures("several")
def test_what_is_dropped_ends_but_not_half_way(tmp_path: Path) -> None:
    begun, half, whole = tmp_path / "begun", tmp_path / "half", tmp_path / "whole"

    def part() -> None:
        with unstopped():
            begun.touch()
            time.sleep(0.3)
            half.touch()
        time.sleep(10)
        whole.touch()

    ahead = Ahead(part)
    while not begun.exists():
        time.sleep(0.01)
    started = time.monotonic()
    ahead.drop()
    assert half.exists() and not whole.exists() and time.monotonic() - started < 5


@pytest.mark.parametrize(
    "error",
    [
        NoSchedule(Problem("DG303", "no registers", Loc("k.c", 3), "fewer")),
        TooLarge(Problem("DG308", "much code"), 2.5),
        IllegalSchedule("reversed", loc=Loc("k.c", 4)),
    ],
)
def test_refusals_come_back_as_they_are(error: Exception) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error) and str(found) == str(error) and vars(found) == vars(error)


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

    def counted(parts: list[Callable[[], object]], vain: Callable[[object], bool] | None = None) -> list[object]:
        used.append(len(parts))
        return beside(parts, vain)

    for module in ("search.work_partition", "driver.pipeline"):
        monkeypatch.setattr(f"dspgen.{module}.beside", counted)
    stages: list[str] = []
    several_made = compile_file(str(path), ft_m7002, options, on_stage=lambda name, value: stages.append(name))
    assert max(used) > 1
    limit_processes(1)
    alone: list[str] = []
    one_made = compile_file(str(path), ft_m7002, options, on_stage=lambda name, value: alone.append(name))
    assert several_made.asm == one_made.asm and several_made.remarks == one_made.remarks and stages == alone


def test_candidates_tried_ahead_make_the_same_code(
    tmp_path: Path, ft_m7002: Target, several: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.c"
    path.write_text(FILTER, encoding="utf-8")
    begun: list[object] = []

    class Counted(Ahead[object]):
        def __init__(self, part: Callable[[], object]) -> None:
            super().__init__(part)
            begun.append(self)

    monkeypatch.setattr("dspgen.search.rewrite_variants.Ahead", Counted)
    made = []
    for processes in (2, 1):
        limit_processes(processes)
        found = compile_file(str(path), ft_m7002, Options())
        made.append((found.asm, found.remarks, [c.trials for c in found.choices], len(begun)))
        begun.clear()
    assert made[0] == made[1] and made[0][-1] > 1
