"""The command line on good input: exit status, the JSON object, the files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dspgen.driver.pipeline import RunResult, run_file

Run = Callable[..., tuple[int, str, str]]
KEYS = "kernel isa cycles bound_cycles efficiency verified max_error compile_seconds simulate_seconds".split()
KEYS += ["unit_busy", "tiles", "loops", "remarks"]


@pytest.fixture
def dot(examples: Path) -> list[str]:
    return [str(examples / "dot.c"), "--isa", "ft_m7002", "-D", "N=48"]


def test_run_json_is_one_object(dspgen: Run, dot: list[str]) -> None:
    status, out, err = dspgen("run", *dot, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert set(KEYS) <= set(found)
    assert found["kernel"] == "dot" and found["isa"] == "ft_m7002" and found["verified"] is True
    assert 0 < found["bound_cycles"] <= found["cycles"]
    assert found["efficiency"] == pytest.approx(found["bound_cycles"] / found["cycles"])
    assert all(0 <= share <= 1 for share in found["unit_busy"].values())
    assert 0 < found["packets"] <= found["cycles"]
    assert all({"line", "ii", "res_mii", "rec_mii", "stages", "trip"} <= set(loop) for loop in found["loops"])


def test_run_shows_a_table(dspgen: Run, dot: list[str]) -> None:
    status, out, _ = dspgen("run", *dot)
    assert status == 0
    assert "dot" in out and "verified" in out and "yes" in out


def test_a_result_that_differs_is_status_1(dspgen: Run, dot: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any, **options: Any) -> RunResult:
        return replace(run_file(*arguments, **options), verified=False, max_error=1.0)

    monkeypatch.setattr("dspgen.cli.main.run_file", wrong)
    status, out, _ = dspgen("run", *dot, "--json")
    assert status == 1 and json.loads(out)["verified"] is False


def test_run_with_inputs_and_outputs(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    x, y = np.arange(48, dtype=np.float32), np.ones(48, np.float32)
    np.savez(tmp_path / "in.npz", x=x, y=y, result=np.zeros(1, np.float32))
    status, _, _ = dspgen("run", *dot, "--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"))
    assert status == 0
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["result"] and out["result"][0] == x.sum()


def test_run_of_several_files(dspgen: Run, examples: Path) -> None:
    files = [str(examples / f"{name}.c") for name in ("dot", "saxpy")]
    status, out, err = dspgen("run", *files, "--isa", "ft_m7002", "-D", "N=32", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert [row["kernel"] for row in found["rows"]] == ["dot", "saxpy"]
    assert found["summary"] == {"kernels": 2, "verified": 2}


def test_one_bad_file_of_several_spoils_the_status_only(dspgen: Run, dot: list[str]) -> None:
    status, out, err = dspgen("run", "missing.c", *dot, "--json")
    assert status == 2 and "error[DG001]" in err
    assert [row["verified"] for row in json.loads(out)["rows"]] == [None, True]


def test_compile_writes_what_is_asked_for(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    status, out, _ = dspgen("compile", *dot, "-o", str(tmp_path / "made"), "--emit", "asm,lasm,h,json")
    assert status == 0
    assert sorted(p.name for p in (tmp_path / "made").iterdir()) == ["dot.h", "dot.json", "dot.s", "dot.sa"]
    assert str(tmp_path / "made" / "dot.s") in out
    manifest = json.loads((tmp_path / "made" / "dot.json").read_text())
    assert [p["name"] for p in manifest["parameters"]] == ["x", "y", "result"]


def test_compile_dumps_each_stage(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    status, out, _ = dspgen("compile", *dot, "-o", str(tmp_path), "--dump-dir", str(tmp_path / "dump"), "--json")
    assert status == 0 and json.loads(out)["verified"] is None
    assert len(list((tmp_path / "dump").iterdir())) >= 4


def test_compiled_text_runs_on_sim(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    """`sim` of the file that `compile` wrote gives what `run` gives: the same cycles, the same arrays."""
    x = np.linspace(-1, 1, 48, dtype=np.float32)
    np.savez(tmp_path / "in.npz", x=x, y=x, result=np.zeros(1, np.float32))
    inputs = ["--inputs", str(tmp_path / "in.npz")]
    assert dspgen("compile", *dot, "-o", str(tmp_path))[0] == 0
    ran = dspgen("run", *dot, *inputs, "--outputs", str(tmp_path / "run.npz"), "--json")
    call = ["--call", "dot(x, y, result)", "--outputs", str(tmp_path / "sim.npz"), "--json"]
    simulated = dspgen("sim", str(tmp_path / "dot.s"), "--isa", "ft_m7002", *inputs, *call)
    assert (ran[0], simulated[0]) == (0, 0)
    assert json.loads(ran[1])["cycles"] == json.loads(simulated[1])["cycles"]
    with np.load(tmp_path / "run.npz") as first, np.load(tmp_path / "sim.npz") as second:
        assert np.array_equal(first["result"], second["result"])


def test_explain_shows_a_loop(dspgen: Run, examples: Path) -> None:
    matmul = examples / "matmul.c"
    line = next(n for n, text in enumerate(matmul.read_text().splitlines(), 1) if "int k" in text)
    status, out, _ = dspgen("explain", str(matmul), "--isa", "ft_m7002", "-D", "N=18", "--line", str(line))
    assert status == 0 and "cycle" in out and "ii = " in out


def test_explain_of_a_line_without_a_loop_names_the_lines(dspgen: Run, dot: list[str]) -> None:
    status, _, err = dspgen("explain", *dot, "--line", "99")
    assert status == 2 and "error[DG507]" in err and "help: loops come from lines: " in err


def test_explain_of_a_loop_that_is_not_pipelined_tells_why(dspgen: Run, tmp_path: Path) -> None:
    text = " .global f\n .input n\n .output n\n.a: .loop\n SSHFAR 1, n, n\n [n]SBR .a\n .endloop\n .size f, .-f\n"
    (tmp_path / "f.sa").write_text(text)
    for line in ("1", "4"):
        status, _, err = dspgen("explain", str(tmp_path / "f.sa"), "--isa", "ft_m7002", "--line", line)
        assert status == 2 and "f.sa:4:1: error[DG507]: loop .a: what its branch tests is no counter" in err
    assert "error[DG500]" in dspgen("explain", str(tmp_path / "f.sa"), "--isa", "ft_m7002", "--line", "0")[2]


def test_isa_commands(dspgen: Run) -> None:
    assert "ft_m7002" in dspgen("isa", "list")[1]
    assert "is sound" in dspgen("isa", "check", "ft_m7002")[1]
    status, out, _ = dspgen("isa", "show", "ft_m7002")
    assert status == 0 and "units" in out
    assert json.loads(dspgen("isa", "show", "ft_m7002", "--json")[1])["name"] == "ft_m7002"


def test_help_of_every_command(dspgen: Run) -> None:
    for command in ("compile", "run", "sim", "schedule", "explain", "isa", "bench"):
        status, out, _ = dspgen(command, "--help")
        assert status == 0 and out.startswith("Usage: dspgen")


def test_what_a_run_does_not_need_is_not_imported() -> None:
    needless = ("dspgen.bench", "dspgen.check", "dspgen.driver.cpu", "backends")
    code = f"import sys, dspgen.cli.main; print(*(m for m in sys.modules if m.startswith({needless!r})))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
