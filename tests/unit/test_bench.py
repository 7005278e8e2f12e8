"""`dspgen bench`: its rows, its summaries, and what it refuses."""

from __future__ import annotations

import json
import math
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from dspgen.bench import (
    breakdown,
    emulated,
    halide_kernels,
    outcomes,
    plots,
    polybench,
    programs,
    speed,
    table1,
    verify,
)
from dspgen.driver.cpu import CpuResult, run_cpu
from dspgen.errors import DspgenError, Problem
from dspgen.frontend.read import read_c
from dspgen.target.load import load_target
from plant_core.support.interruptible import apart
from plant_core.support.location import PlantError

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def test_thirty_kernels_each_with_all_its_macros() -> None:
    assert len(polybench.KERNELS) == 30
    for kernel in polybench.KERNELS:
        text = Path(polybench.source(kernel)).read_text()
        default = polybench.defines(kernel, "small")
        assert all(f"#define {name} {value}\n" in text for name, value in default)
        assert {name for size in polybench.SIZES for name, _ in polybench.defines(kernel, size)} == dict(default).keys()
        assert text.count("#pragma scop") == text.count("#pragma endscop") == 1


def test_odd_sizes_fit_no_lanes_and_no_tiles() -> None:
    for kernel in polybench.KERNELS:
        assert all(int(value) % 2 for _, value in polybench.defines(kernel, "odd"))


def test_polybench_on_this_computer(dspgen: Run) -> None:
    arguments = ["--backend", "cpu", "--size", "mini", "--size", "odd", "--only", "atax,lu", "--threads", "2"]
    status, out, err = dspgen("bench", "polybench", *arguments, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert [(row["kernel"], row["size"]) for row in found["rows"]] == [
        ("atax", "mini"),
        ("lu", "mini"),
        ("atax", "odd"),
        ("lu", "odd"),
    ]
    for row in found["rows"]:
        assert row["verified"] is True and row["refused"] is None and row["threads"] == 2 and row["backend"] == "cpu"
        assert row["seconds"] > 0 and row["cycles"] is None
    summary = found["summary"]
    assert (summary["kernels"], summary["runs"], summary["verified"]) == (2, 4, 4)
    assert (summary["wrong"], summary["refused"]) == (0, 0)


def test_polybench_on_a_simulator_tells_why_not(dspgen: Run) -> None:
    status, out, err = dspgen("bench", "polybench", "--isa", "ft_m7002", "--only", "jacobi-1d,deriche", "--json")
    deriche, jacobi = json.loads(out)["rows"]
    assert status == 0
    assert jacobi["verified"] is True and jacobi["isa"] == "ft_m7002" and jacobi["cycles"] >= jacobi["bound_cycles"]
    assert deriche["verified"] is None and "exp" in deriche["refused"]
    assert "deriche mini: " in err and "error[DG" in err


def test_polybench_shows_a_table(dspgen: Run) -> None:
    status, out, _ = dspgen("bench", "polybench", "--backend", "cpu", "--size", "mini", "--only", "mvt")
    assert status == 0 and "mvt" in out and "1 of 1 verified, 0 wrong, 0 refused" in out


def test_a_wrong_result_is_status_1(dspgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any, **options: Any) -> CpuResult:
        return replace(
            run_cpu(*arguments, **options),
            verified=False,
            wrong={"y": 1},
            details=("differs from the C program: y[0]: got 1",),
        )

    monkeypatch.setattr(verify, "run_cpu", wrong)
    status, out, err = dspgen("bench", "polybench", "--backend", "cpu", "--only", "atax", "--size", "mini", "--json")
    assert status == 1 and json.loads(out)["summary"]["wrong"] == 1
    assert "y[0]: got 1" in err


def test_speed_against_a_compiler(dspgen: Run) -> None:
    arguments = ["--size", "mini", "--only", "jacobi-1d,gemver", "--peers", "gcc"]
    status, out, err = dspgen("bench", "cpu", *arguments, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    for row in found["rows"]:
        assert row["verified"] is True and row["threads"] == 1 and row["size"] == "mini"
        assert row["ratio"] == pytest.approx(row["gcc_seconds"] / row["ours_seconds"])
        assert row["blas_seconds"] is None and row["polly_ratio"] is None
    ratios = [row["ratio"] for row in found["rows"]]
    gcc = found["summary"]["gcc"]
    assert gcc["geometric_mean"] == pytest.approx(math.sqrt(ratios[0] * ratios[1]))
    assert gcc["worst"] == min(ratios) and gcc["kernels"] == 2
    assert gcc["slower"] == sum(ratio < 1 for ratio in ratios)
    assert found["summary"]["slowest_compile_kernel"] in ("jacobi-1d", "gemver")


def test_speed_shows_a_table(dspgen: Run) -> None:
    status, out, _ = dspgen("bench", "cpu", "--size", "mini", "--only", "atax", "--peers", "gcc", "--threads", "2")
    assert status == 0 and "/ gcc" in out and "times as fast as gcc (geometric mean of 1)" in out


def test_the_library_is_measured_on_a_matrix_product_of_its_own() -> None:
    names = [(p.kernel, p.size) for p in speed.problems(("gemm", "lu"), "mini", ("gcc", "blas"))]
    assert names == [("gemm", "mini"), ("gemm", "2048"), ("lu", "mini")]
    assert len(speed.problems(("gemm", "lu"), "mini", ("gcc",))) == 2
    rows = [
        {"kernel": "gemm", "size": "mini", "ratio": 2.0, "polly_ratio": None, "blas_ratio": None},
        {"kernel": "gemm", "size": "2048", "ratio": 8.0, "polly_ratio": None, "blas_ratio": 0.5},
    ]
    found = speed.summary([row | {"verified": True, "refused": None, "compile_seconds": 0.5} for row in rows])
    assert found["gcc"]["geometric_mean"] == pytest.approx(2.0) and found["blas"]["worst"] == 0.5


def test_every_contender_begins_a_round() -> None:
    order: list[str] = []

    def run(name: str) -> float:
        order.append(name)
        return 0.5

    speed.race({name: partial(run, name) for name in "abc"})
    assert "".join(order) == "abcbcacab"


def test_another_compiler_judges_what_is_near(examples: Path) -> None:
    func = read_c(str(examples / "saxpy.c"))
    theirs = np.linspace(-2, 2, 64, dtype=np.float32)
    found = speed.judge(func, {"ours": {"y": theirs + np.float32(1e-6)}, "gcc": {"y": theirs}})
    assert found is not None and found["verified"] is True and found["judge"] == "gcc" and 0 < found["max_error"] < 2e-6
    for wrong in (theirs + np.float32(1e-3), np.where(theirs > 1, np.float32("nan"), theirs)):
        assert speed.judge(func, {"ours": {"y": wrong}, "gcc": {"y": theirs}}) is None
    assert speed.judge(func, {"ours": {"y": theirs}}) is None


@pytest.mark.parametrize("long", [0.0, 1e9])
def test_who_judged_is_told(long: float, dspgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LONG", long)
    status, out, _ = dspgen("bench", "cpu", "--size", "mini", "--only", "jacobi-1d", "--peers", "gcc", "--json")
    (row,) = json.loads(out)["rows"]
    assert status == 0 and row["verified"] is True and row["judge"] == ("gcc" if long == 0 else "C program")


def test_an_interrupt_does_not_wait_for_c() -> None:
    waiting = threading.Event()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job begins with it ignored
    timer = threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        apart(waiting.wait)
    signal.signal(signal.SIGINT, before)
    waiting.set()
    with pytest.raises(DspgenError, match="here"):
        apart(partial(_fail, "here"))
    assert apart(lambda: 1, lambda: 2) == [1, 2]


def _fail(why: str) -> NoReturn:
    raise DspgenError(Problem("DG500", why))


@pytest.mark.needs_tool("clang-polly")
def test_against_polly(dspgen: Run) -> None:
    arguments = ["--size", "mini", "--only", "mvt", "--peers", "clang-polly"]
    status, out, _ = dspgen("bench", "cpu", *arguments, "--json")
    found = json.loads(out)
    assert status == 0 and found["rows"][0]["polly_ratio"] > 0 and found["rows"][0]["gcc_seconds"] is None
    assert found["summary"]["clang-polly"]["kernels"] == 1 and "gcc" not in found["summary"]


@pytest.mark.parametrize("bench", [["cpu", "--peers", "gcc"], ["polybench", "--backend", "cpu"]])
def test_what_the_computer_lacks_is_told_once(bench: list[str], dspgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", __file__)
    status, out, err = dspgen("bench", *bench, "--size", "mini", "--only", "mvt,atax")
    assert (status, out) == (2, "")
    assert err.count("error[DG611]") == 1 and "help: set XDG_CACHE_HOME to" in err


def test_slow_runs_are_not_repeated() -> None:
    turns: dict[str, list[float]] = {"slow": [4.0], "fast": [0.5, 0.3, 0.4, 0.6]}
    counts = dict.fromkeys(turns, 0)

    def run(name: str) -> float:
        counts[name] += 1
        return turns[name][counts[name] - 1]

    best = speed.race({"slow": lambda: run("slow"), "fast": lambda: run("fast")})
    assert best == {"slow": 4.0, "fast": 0.3} and counts == {"slow": 1, "fast": speed.ROUNDS[0]}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fly"], "error[DG500]: No such command 'fly'"),
        (["hexagon", "--only", "gem"], "error[DG510]: --only gem: there is no such kernel"),
        (["polybench"], "error[DG500]: Missing option '--isa', or '--backend' in its place"),
        (["polybench", "--backend", "cuda"], "error[DG502]: `--backend cuda` is not there yet"),
        (["polybench", "--backend", "cpu", "--only", "gem"], "error[DG510]: --only gem: there is no such kernel"),
        (["polybench", "--backend", "cpu", "--size", "vast"], "error[DG500]: Invalid value for '--size'"),
        (["cpu", "--threads", "0"], "error[DG500]: Invalid value for '--threads'"),
        (["cpu", "--peers", "icc"], "error[DG500]: --peers icc: the peers are gcc, clang-polly, blas"),
        (["cpu", "--peers", ","], "error[DG500]: --peers names nothing"),
        (["cpu", "--only", ""], "error[DG510]: --only names no kernel"),
        (["polybench", "--backend", "cpu", "--only", ","], "error[DG510]: --only names no kernel"),
    ],
)
def test_what_is_refused(arguments: list[str], said: str, dspgen: Run) -> None:
    status, out, err = dspgen("bench", *arguments)
    assert (status, out) == (2, "")
    assert err.startswith(said) and "Traceback" not in err


def test_a_peer_that_is_not_here(dspgen: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dspgen.bench.peers.shutil.which", lambda name: None)
    status, out, err = dspgen("bench", "cpu", "--only", "atax", "--size", "mini", "--peers", "clang-polly")
    assert (status, out) == (2, "")
    assert err.startswith("error[DG512]: --peers clang-polly: it isn't installed here")


def test_breakdown_of_a_small_product(dspgen: Run) -> None:
    status, out, err = dspgen("bench", "breakdown", "--only", "matmul_4", "--jobs", "2", "--json")
    found = json.loads(out)
    (row,) = found["rows"]
    assert (status, err) == (0, "") and row["verified"] is True and row["refused"] is None
    for cycles in (row["cycles"]["one"], row["cycles"]["search"]):
        assert 0 < cycles["full"] <= min(cycles["vector"], cycles["off"])
    summary = found["summary"]
    assert summary["rewriting_gain"] == pytest.approx(row["cycles"]["one"]["off"] / row["cycles"]["one"]["full"])
    assert summary["slower"] == [] and summary["seed_gain"] == 3.49
    assert summary["scheduling_gain"] == pytest.approx(row["in_order"] / row["cycles"]["search"]["full"])
    assert summary["scheduling_gain"] > 1 and summary["slower_than_in_order"] == []


def test_breakdown_knows_its_kernels() -> None:
    assert [k.name for k in programs.chosen(["matmul_4,fft_1"], breakdown.KERNELS)] == [
        "fft_16",
        "fft_128",
        "fft_1024",
        "matmul_4",
    ]
    for kernel in breakdown.KERNELS.values():
        assert Path(kernel.source).is_file()
    with pytest.raises(DspgenError, match="there is no such kernel"):
        programs.chosen(["matmull"], breakdown.KERNELS)


def test_table1_compares_with_simpler_code(dspgen: Run) -> None:
    status, out, err = dspgen("bench", "table1", "--only", "matmul_4", "--jobs", "1", "--json")
    assert status == 0, err
    found = json.loads(out)
    (row,) = found["rows"]
    assert row["verified"] and row["baselines_verified"] and row["data"] == "ddr"
    assert row["least_cycles"] <= row["chip_cycles"] < row["apart_cycles"] + 1 <= row["vector_cycles"] + 1
    assert row["chip_cycles"] < row["cycles"]
    assert row["over_scalar"] == pytest.approx(row["scalar_cycles"] / row["chip_cycles"]) and row["over_scalar"] > 1
    assert found["summary"]["slower_than_scalar"] == [] and found["summary"]["most_over_least"] >= 1
    assert (row["seed_rounds"], row["seed_minutes"]) == (1, 0.07)


def test_table1_knows_its_kernels() -> None:
    assert set(table1.SEED) <= set(table1.KERNELS)
    assert all(Path(kernel.source).is_file() for kernel in table1.KERNELS.values())
    small = [k.name for k in table1.KERNELS.values() if k.side <= table1.SMALL]
    assert "conv2d_valid_16_2" in small and "fft_loop_16" in small and "fft_32" not in small


def test_of_several_refusals_the_first_is_told() -> None:
    def refuse() -> outcomes.Outcome:
        raise PlantError("too deep", code="DG201", remedy="fewer loops")

    one = outcomes.outcome_or_refusal(refuse)
    other = outcomes.outcome_or_refusal(partial(_fail, "too wide"))
    told: list[tuple[str, str]] = []

    def tell(kernel: str, error: DspgenError) -> None:
        told.append((kernel, error.render()))

    assert outcomes.first_refusal("f", [outcomes.Outcome(3), one, other], tell) == "too deep"
    assert told == [("f", "error[DG201]: too deep\nhelp: fewer loops")]
    assert outcomes.first_refusal("f", [outcomes.Outcome(3)], tell) is None and len(told) == 1


def test_gains_are_geometric_means() -> None:
    def row(name: str, off: int, vector: int, full: int) -> dict[str, Any]:
        cycles = {"off": off, "vector": vector, "full": full}
        tiles = {"one": cycles, "search": cycles}
        return {"kernel": name, "verified": True, "refused": None, "cycles": tiles, "in_order": 2 * full}

    found = breakdown.summary([row("a", 40, 20, 10), row("b", 90, 10, 10), row("c", 9, 10, 10)])
    assert found["rewriting_gain"] == pytest.approx((4 * 9 * 0.9) ** (1 / 3))
    assert found["scalar_vector_gain"] == pytest.approx(2 ** (1 / 3))
    assert found["slower"] == ["c"]
    assert found["scheduling_gain"] == pytest.approx(2) and found["slower_than_in_order"] == []


def _nest(*cycles: float | None) -> dict[str, Any]:
    return {"trials": [{"cycles": c} for c in cycles]}


def test_the_curve_of_a_search_is_that_of_all_its_nests() -> None:
    row = {"search": [_nest(300.0, None, 400.0, 200.0), _nest(150.0, 100.0)]}
    assert plots.curve(row) == [1.5, 1.5, 7 / 6, 1.0]
    assert plots.curve({"search": []}) == plots.curve({}) == []


@pytest.mark.needs_tool("matplotlib")
def test_pictures(tmp_path: Path) -> None:
    row = {"kernel": "one", "efficiency": 0.5, "search": [_nest(30.0, 20.0)]}
    made = plots.table1_plots([row, {"kernel": "two", "efficiency": None}], tmp_path)
    made += plots.breakdown_plots([{"kernel": "one", "cycles": {"one": {"off": 9, "full": 3}}}], tmp_path / "new")
    assert [p.name for p in made] == ["efficiency.svg", "search.svg", "breakdown.svg"]
    assert all("<svg" in p.read_text(encoding="utf-8") for p in made)


def test_pictures_without_their_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(DspgenError, match="takes a library that is not installed"):
        plots.figure_of(1)


@pytest.mark.needs_tool("halide")
def test_rivals_in_halide(tmp_path: Path) -> None:
    """Each kernel has a schedule, and its object the function that the bench calls."""
    target = load_target(emulated.MACHINE)
    assert target.toolchain is not None
    params = [{"name": n, "type": "Int", "bits": [32], "shape": s} for n, s in (("y", [256]), ("x", [256]), ("a", []))]
    job = {"kernel": "saxpy", "target": target.toolchain.halide, "vector": 128, "params": params}
    found = []
    for number in (0, 99):
        (tmp_path / "job").write_text(json.dumps(job | {"schedule": number}), encoding="utf-8")
        found.append(halide_kernels.main(str(tmp_path / "job"), str(tmp_path / "made.o")))
    assert found == [0, halide_kernels.NO_SCHEDULE]
    assert b"generated" in (tmp_path / "made.o").read_bytes()


def test_calls_of_halide() -> None:
    """Arrays go by buffers, those of the result once more; numbers as they are."""
    func = read_c(emulated.KERNELS["saxpy"].source)
    text = emulated._halide_call(func)
    assert "generated(&b0, &b1, given2, &b3)" in text and "b3.host = given0" in text
