"""The command line's road to this computer: what it makes, what it says, and what it refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dspgen.__main__ import main as entry
from dspgen.driver.cpu import CpuResult, run_cpu
from plant_core.schedule.packing.caches import Caches

Run = Callable[..., tuple[int, str, str]]
KEYS = "kernel isa cycles bound_cycles efficiency verified max_error compile_seconds simulate_seconds".split()
KEYS += ["unit_busy", "tiles", "loops", "remarks", "seconds", "build_seconds", "threads", "backend"]
SYMBOLIC = """
void scale(int n, int m, float s, const float x[n][m], float y[m][n])
{
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++)
      y[j][i] = s * x[i][j];
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def dot(examples: Path) -> list[str]:
    return [str(examples / "dot.c"), "--backend", "cpu", "-D", "N=48"]


@pytest.fixture
def refused(dspgen: Run) -> Callable[..., str]:
    def run(*arguments: str) -> str:
        status, out, err = dspgen(*arguments)
        assert (status, out) == (2, "")
        assert "Traceback" not in err
        return err

    return run


@pytest.mark.parametrize("threads", ["1", "2"])
def test_run_json_is_one_object(dspgen: Run, dot: list[str], threads: str) -> None:
    status, out, err = dspgen("run", *dot, "--threads", threads, "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert set(KEYS) <= set(found)
    assert found["verified"] is True and found["kernel"] == "dot" and found["backend"] == "cpu"
    assert found["cycles"] is None and found["bound_cycles"] is None and found["isa"] is None
    assert found["seconds"] > 0 and found["threads"] == int(threads)


def test_inputs_that_end_the_c_program_are_told(refused: Callable[..., str], tmp_path: Path) -> None:
    """The kernel would be ended as well, and this process with it."""
    file = tmp_path / "k.c"
    file.write_text("void k(const int a[4], int x[4]) { for (int i = 0; i < 4; i++) if (a[i]) x[i] = 5 / i; }")
    np.savez(tmp_path / "in.npz", a=np.ones(4, np.int32), x=np.zeros(4, np.int32))
    error = refused("run", str(file), "--backend", "cpu", "--inputs", str(tmp_path / "in.npz"))
    assert "DG523" in error and "divides an integer by zero" in error


def test_run_shows_a_table_and_keeps_the_library(dspgen: Run, dot: list[str], own_cache: Path) -> None:
    status, out, _ = dspgen("run", *dot)
    assert status == 0 and "dot" in out and "yes" in out
    assert list((own_cache / "dspgen" / "cpu").glob("*.so"))


def test_run_strict_is_bit_for_bit(dspgen: Run, dot: list[str]) -> None:
    status, out, _ = dspgen("run", *dot, "--fp", "strict", "--json")
    assert status == 0 and json.loads(out)["max_error"] == 0


def test_run_with_inputs_and_outputs(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", x=np.arange(48, dtype=np.float32), y=np.ones(48, np.float32))
    status, _, _ = dspgen("run", *dot, "--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"))
    assert status == 0
    with np.load(tmp_path / "out.npz") as out:
        assert out.files == ["result"] and out["result"][0] == np.arange(48).sum()


def test_a_result_that_differs_is_status_1(dspgen: Run, dot: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: Any, **options: Any) -> CpuResult:
        return replace(
            run_cpu(*arguments, **options),
            verified=False,
            wrong={"result": 1},
            details=("differs from the C program: result[0]: got 1",),
        )

    monkeypatch.setattr("dspgen.cli.cpu.run_cpu", wrong)
    status, out, err = dspgen("run", *dot, "--json")
    assert status == 1 and json.loads(out)["verified"] is False
    assert "dot differs from the C program: result[0]: got 1" in err


def test_several_files_and_a_bad_one(dspgen: Run, dot: list[str], examples: Path) -> None:
    status, out, err = dspgen("run", "missing.c", str(examples / "saxpy.c"), *dot, "--json")
    assert status == 2 and "error[DG001]" in err
    rows = json.loads(out)["rows"]
    assert [row["verified"] for row in rows] == [None, True, True]
    assert "missing.c" in rows[0]["refused"] and rows[1]["refused"] is None


def test_compile_writes_text_and_stages(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    where = ["-o", str(tmp_path), "--dump-dir", str(tmp_path / "dump"), "--emit", "cpp"]
    status, out, _ = dspgen("compile", *dot, *where)
    assert status == 0 and out.strip() == str(tmp_path / "dot.cpp")
    assert 'extern "C" void dot(' in (tmp_path / "dot.cpp").read_text()
    assert [p.name for p in sorted((tmp_path / "dump").iterdir())] == [
        "01-scop.txt",
        "02-schedule.txt",
        "03-tree.txt",
        "04-cpp.txt",
    ]


def test_remarks_name_the_loops(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    _, out, _ = dspgen("run", *dot, "--remarks")
    assert "dot.c:" in out and ": loops: " in out
    _, out, _ = dspgen("compile", *dot, "-o", str(tmp_path), "--json")
    assert {"line", "kind", "message"} <= json.loads(out)["remarks"][0].keys()


def test_what_is_packed_is_told(dspgen: Run, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dspgen.driver.cpu.caches_here", Caches)
    monkeypatch.setattr("dspgen.driver.cpu.vector_width", lambda compiler: 32)
    kernel = [str(examples / "polybench" / "doitgen.c"), "--backend", "cpu", "--threads", "1"]
    kernel += ["-D", "NQ=140", "-D", "NR=150", "-D", "NP=160"]
    told = {}
    for pack in ("panels", "gpat", "off"):
        where = ["-o", str(tmp_path / pack), "--dump-dir", str(tmp_path / pack)]
        status, out, _ = dspgen("compile", *kernel, "--pack", pack, *where, "--json")
        told[pack] = [r["message"] for r in json.loads(out)["remarks"] if r["kind"] == "packing"]
        assert status == 0
    assert told["panels"] == told["off"] == []
    assert any(m.startswith("'C4' before the loop ") and "the same elements in each of" in m for m in told["gpat"])
    assert [p.name for p in sorted((tmp_path / "gpat").glob("*.txt"))][2] == "03-packed.txt"


def test_packing_is_of_this_computer(refused: Callable[..., str], examples: Path) -> None:
    err = refused("compile", str(examples / "dot.c"), "--isa", "ft_m7002", "--pack", "gpat")
    assert "--pack goes with --backend cpu" in err


def test_sizes_that_stay_symbolic(dspgen: Run, tmp_path: Path) -> None:
    (tmp_path / "scale.c").write_text(SYMBOLIC)
    np.savez(tmp_path / "in.npz", n=np.int32(13), m=np.int32(29), s=np.float32(3))
    command = ["run", str(tmp_path / "scale.c"), "--backend", "cpu", "--json"]
    status, out, err = dspgen(*command, "--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz"))
    assert (status, err) == (0, "") and json.loads(out)["verified"] is True
    with np.load(tmp_path / "out.npz") as found:
        assert found["y"].shape == (29, 13)
    assert dspgen(*command, "-D", "n=5", "-D", "m=31")[0] == 0
    status, _, err = dspgen(*command, "-D", "n=5")
    assert status == 2 and "error[DG501]: the parameter 'm'" in err and "error[DG501]: the parameter 'n'" not in err


def test_headers_from_a_folder(dspgen: Run, tmp_path: Path) -> None:
    (tmp_path / "sizes").mkdir()
    (tmp_path / "sizes" / "size.h").write_text("#define SIZE 21\n")
    (tmp_path / "k.c").write_text(
        '#include "size.h"\nvoid k(float a[SIZE]) { for (int i = 0; i < SIZE; i++) a[i] *= 2; }\n'
    )
    command = ["run", str(tmp_path / "k.c"), "--backend", "cpu", "--json"]
    assert dspgen(*command)[0] == 2
    status, out, err = dspgen(*command, "-I", str(tmp_path / "sizes"))
    assert (status, err) == (0, "") and json.loads(out)["verified"] is True


def test_bad_extents_in_inputs(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "scale.c").write_text(SYMBOLIC)
    x = np.zeros((3, 4), np.float32)
    for given, said in (
        ({"x": x}, "has 'x', but an extent needs the parameter 'n'"),
        ({"x": x, "n": np.int32(3), "m": np.int32(5)}, "'x' of shape (3, 4); the parameter's is (3, 5)"),
        ({"n": np.int32(-3), "m": np.int32(5)}, "'x' would have the extents (-3, 5)"),
    ):
        np.savez(tmp_path / "in.npz", **given)  # type: ignore[arg-type]
        err = refused("run", str(tmp_path / "scale.c"), "--backend", "cpu", "--inputs", str(tmp_path / "in.npz"))
        assert said in err


@pytest.mark.parametrize("command", ["run", "compile"])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--isa", "ft_m7002", "--backend", "cpu"], "--isa and --backend exclude each other"),
        ([], "Missing option '--isa', or '--backend' in its place"),
        (["--backend", "gpu"], "Invalid value for '--backend'"),
        (["--backend", "cpu", "--threads", "0"], "Invalid value for '--threads'"),
        (["--backend", "cpu", "--threads", "many"], "Invalid value for '--threads'"),
        (["--isa", "ft_m7002", "--threads", "2"], "--threads goes with --backend cpu"),
        (["--backend", "cpu", "--set", "lanes=4"], "--set goes with --isa"),
        (["--backend", "cpu", "--data", "onchip"], "--data goes with --isa"),
    ],
)
def test_options_that_do_not_go_together(
    command: str, options: list[str], said: str, refused: Callable[..., str], examples: Path
) -> None:
    err = refused(command, str(examples / "dot.c"), *options)
    assert err.startswith("error[DG500]: ") and said in err and f"help: dspgen {command} --help" in err


def test_other_refusals(refused: Callable[..., str], dot: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "error[DG502]: `--backend cuda` is not there yet" in refused("run", dot[0], "--backend", "cuda")
    assert "--emit asm: the kinds are cpp" in refused("compile", *dot, "--emit", "asm")
    assert "error[DG001]: there is no folder 'nowhere'" in refused("run", *dot, "-I", "nowhere")
    monkeypatch.setattr("backends.cpu.build.COMPILERS", ("no-such-compiler",))
    err = refused("run", *dot)
    assert "error[DG610]: " in err and "help: install" in err


def test_names_that_no_macro_can_have(refused: Callable[..., str], dot: list[str]) -> None:
    for text in ("3N=4", "a-b=1", "=4"):
        assert "error[DG509]: -D " in refused("run", *dot, "-D", text)


@pytest.mark.parametrize("option", [["--backend", "cpu"], ["--isa", "ft_m7002"]])
def test_seeds_count_from_nought(option: list[str], refused: Callable[..., str], examples: Path) -> None:
    err = refused("run", str(examples / "dot.c"), *option, "--seed", "-1")
    assert err.startswith("error[DG500]: Invalid value for '--seed'")


def test_a_figure_without_a_value(refused: Callable[..., str], examples: Path) -> None:
    err = refused("run", str(examples / "dot.c"), "--isa", "ft_m7002", "--set", "lanes=")
    assert err == "error[DG509]: --set 'lanes=' is not of the form name=value\nhelp: --set NAME=VALUE\n"


@pytest.mark.parametrize("option", [["--backend", "cpu"], ["--isa", "ft_m7002"]])
def test_emit_that_names_nothing(option: list[str], refused: Callable[..., str], examples: Path) -> None:
    assert "error[DG500]: --emit names no kind" in refused("compile", str(examples / "dot.c"), *option, "--emit", "")


def test_memory_that_is_not_there(refused: Callable[..., str], dot: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def too_large(*_: Any, **__: Any) -> None:
        raise MemoryError("Unable to allocate 74.5 GiB")

    monkeypatch.setattr("dspgen.cli.cpu.run_cpu", too_large)
    err = refused("run", *dot)
    assert err.startswith("error[DG514]: there is not enough memory on this computer: Unable") and "help: " in err


def test_outputs_go_to_a_folder_that_is_made(dspgen: Run, dot: list[str], tmp_path: Path) -> None:
    assert dspgen("run", *dot, "--outputs", str(tmp_path / "new" / "out.npz"))[0] == 0
    assert (tmp_path / "new" / "out.npz").is_file()


def test_inputs_that_are_no_archive(refused: Callable[..., str], dot: list[str], tmp_path: Path) -> None:
    (tmp_path / "junk.npz").write_text("junk")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name, said in (
        ("junk.npz", "can't be read: it is no archive of NumPy arrays"),
        ("one.npy", "holds one array, without a name"),
        ("none.npz", "can't be read: No such file or directory"),
        ("", "can't be read: Is a directory"),
    ):
        err = refused("run", *dot, "--inputs", str(tmp_path / name))
        assert "error[DG503]: " in err and said in err and "help: write it with numpy.savez" in err


def test_a_missing_compiler_ends_several_files_at_once(
    refused: Callable[..., str], dot: list[str], examples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backends.cpu.build.COMPILERS", ("no-such-compiler",))
    err = refused("run", *dot, str(examples / "saxpy.c"))
    assert err.count("error[DG610]") == 1 and "help: install g++ or clang++, where PATH finds it" in err


def test_cache_that_can_not_be_written(
    refused: Callable[..., str], dot: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert "error[DG611]: " in refused("run", *dot)


def test_an_interrupt_while_libraries_load(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(name: str) -> None:
        raise KeyboardInterrupt

    unfinished = ModuleType("dspgen.cli.main")
    monkeypatch.setattr(unfinished, "__getattr__", interrupted, raising=False)
    monkeypatch.setitem(sys.modules, "dspgen.cli.main", unfinished)
    with pytest.raises(SystemExit) as exit:
        entry()
    assert exit.value.code == 130 and capsys.readouterr().err == "interrupted\n"
