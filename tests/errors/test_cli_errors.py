"""What the command line says to wrong input: exit status 2, a code, no traceback, nothing on stdout."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dspgen import io

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def refused(dspgen: Run) -> Callable[..., str]:
    """Runs a command that must be refused, and gives what it says."""

    def run(*arguments: str) -> str:
        status, out, err = dspgen(*arguments)
        assert (status, out) == (2, "")
        assert "Traceback" not in err
        return err

    return run


def test_isa_is_required(refused: Callable[..., str], examples: Path) -> None:
    err = refused("run", str(examples / "dot.c"))
    assert err.startswith("error[DG500]: Missing option '--isa'")
    assert "help: dspgen run --help" in err


def test_unknown_option_and_command(refused: Callable[..., str]) -> None:
    assert "error[DG500]: No such option" in refused("run", "x.c", "--nonsense")
    assert "error[DG500]: No such command 'fly'" in refused("fly")


@pytest.mark.parametrize("command", [[], ["isa"]])
def test_no_command_shows_the_help(command: list[str], refused: Callable[..., str]) -> None:
    assert "Usage: dspgen" in refused(*command)


@pytest.mark.parametrize(
    "arguments",
    [
        ["bench", "cuda"],
        ["compile", "x.c", "--isa", "ft_m7002", "--emit", "asm,c"],
    ],
)
def test_what_is_not_there_yet_says_so(arguments: list[str], refused: Callable[..., str]) -> None:
    err = refused(*arguments)
    assert err.startswith("error[DG502]: ") and "not there yet" in err


def test_malformed_pairs(refused: Callable[..., str], examples: Path) -> None:
    dot = str(examples / "dot.c")
    assert "error[DG509]: --set 'lanes'" in refused("run", dot, "--isa", "ft_m7002", "--set", "lanes")
    assert "error[DG509]: -D '=3' is not of the form name=value" in refused("run", dot, "--isa", "ft_m7002", "-D", "=3")


def test_unknown_emit_kind(refused: Callable[..., str], examples: Path) -> None:
    err = refused("compile", str(examples / "dot.c"), "--isa", "ft_m7002", "--emit", "asm,elf")
    assert "--emit elf: the kinds are asm, lasm, h, json" in err


def test_unknown_isa_names_the_known_ones(refused: Callable[..., str], examples: Path) -> None:
    assert "ft_m7002" in refused("run", str(examples / "dot.c"), "--isa", "ft_m7003")


def test_missing_source_file(refused: Callable[..., str]) -> None:
    assert "error[DG001]" in refused("run", "no_such_file.c", "--isa", "ft_m7002")


def test_missing_assembly_file(refused: Callable[..., str]) -> None:
    assert refused("sim", "no_such_file.s", "--isa", "ft_m7002").startswith(
        "error[DG506]: no_such_file.s can't be read"
    )


@pytest.mark.parametrize(("command", "code"), [("run", "DG001"), ("sim", "DG506"), ("schedule", "DG506")])
def test_what_is_no_text(command: str, code: str, refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(range(256)))
    err = refused(command, str(tmp_path / "f"), "--isa", "ft_m7002")
    assert err.startswith(f"error[{code}]: ") and "it is not text" in err and err.count("error") == 1


def test_lines_are_shown_without_control_characters(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "f.s").write_text("f: SFLY R1 ; \x1b[31m \u3000\u4e2d\n \x1b\n")
    err = refused("sim", str(tmp_path / "f.s"), "--isa", "ft_m7002")
    assert "\x1b" not in err and "; \ufffd[31m \u3000\u4e2d" in err


def test_inputs_that_can_not_be_read(refused: Callable[..., str], examples: Path, tmp_path: Path) -> None:
    dot = [str(examples / "dot.c"), "--isa", "ft_m7002"]
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("missing.npz", "bad.npz", "one.npy"):
        assert "error[DG503]" in refused("run", *dot, "--inputs", str(tmp_path / name))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"xx": np.zeros(16, np.float32)}, "--inputs has 'xx', which is no parameter of dot"),
        ({"x": np.zeros(15, np.float32)}, "--inputs has 'x' of shape (15,); the parameter's is (16,)"),
        ({"x": np.zeros(16, np.complex64)}, "--inputs has 'x' of type complex64; the parameter's is float32"),
    ],
)
def test_inputs_that_do_not_fit(
    wrong: dict[str, np.ndarray], said: str, refused: Callable[..., str], examples: Path, tmp_path: Path
) -> None:
    arrays = {"x": np.zeros(16, np.float32), "y": np.zeros(16, np.float32)} | wrong
    np.savez(tmp_path / "in.npz", **arrays)
    inputs = ["--inputs", str(tmp_path / "in.npz")]
    err = refused("run", str(examples / "dot.c"), "--isa", "ft_m7002", "-D", "N=16", *inputs)
    assert f"error[DG508]: {said}" in err


def test_inputs_lack_a_size(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "f.c").write_text("void f(int n, float a[n]) { for (int i = 0; i < n; i++) a[i] += 1; }")
    np.savez(tmp_path / "in.npz", a=np.zeros(16, np.float32))
    err = refused("run", str(tmp_path / "f.c"), "--isa", "ft_m7002", "--inputs", str(tmp_path / "in.npz"))
    assert "error[DG508]: --inputs has 'a', but an extent needs the parameter 'n', which isn't given" in err
    assert "help: give 'n', too" in err


def test_call_names_arrays_without_inputs(refused: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "f.s").write_text("f:\n")
    err = refused("sim", str(tmp_path / "f.s"), "--isa", "ft_m7002", "--call", "f(x, y, 32)")
    assert "error[DG505]: --call names 'x', 'y'" in err
    assert "help: give the arrays with --inputs" in err


def test_a_fault_from_a_call_with_too_few_arguments(refused: Callable[..., str], tmp_path: Path) -> None:
    text = ".global f\nf: SMVAGA36.M1 R13:R12,AR8\n SNOP 1\n SSTW R10,*AR8\n SNOP 4\n SBR R62\n SNOP 6\n"
    (tmp_path / "f.s").write_text(text)
    err = refused("sim", str(tmp_path / "f.s"), "--isa", "ft_m7002", "--call", "f(1)")
    assert "f.s:4:2: error[DG420]" in err and "help: line 2 reads R12, an argument that the call doesn't give" in err


def test_pictures_need_a_folder_before_anything_is_measured(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspgen.bench.plots.figure_of", lambda _: None)
    (tmp_path / "file").write_text("in the way")
    for bench in ("table1", "table2", "breakdown"):
        assert "error[DG504]" in refused("bench", bench, "--plot", str(tmp_path / "file"))


def test_outputs_that_can_not_be_written(refused: Callable[..., str], examples: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    err = refused("compile", str(examples / "dot.c"), "--isa", "ft_m7002", "-o", str(tmp_path / "file" / "deeper"))
    assert "error[DG504]" in err


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 2), (errno.EPIPE, 141), (errno.EIO, 3)])
def test_output_that_can_not_be_written(
    number: int, status: int, dspgen: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("dspgen.cli.isa.print_json", full)
    monkeypatch.chdir(tmp_path)
    found, out, err = dspgen("isa", "list", "--json")
    assert (found, out) == (status, "")
    assert ("error[DG504]: the output can't be written: No space left" in err) == (number == errno.ENOSPC)


def test_the_file_that_is_read_is_kept(refused: Callable[..., str], tmp_path: Path) -> None:
    for name, text in (("f.c", "void f(int x[4]) { x[0] = 1; }"), ("f.s", ".global f\n SNOP 1\n .size f, .-f\n")):
        (tmp_path / name).write_text(text)
    machine = ["--isa", "ft_m7002"]
    for command, name, outputs in (
        ("run", "f.c", ["--outputs", str(tmp_path / "f.c")]),
        ("sim", "f.s", ["--outputs", str(tmp_path / ".." / tmp_path.name / "f.s")]),
        ("schedule", "f.s", ["-o", str(tmp_path)]),
    ):
        before = (tmp_path / name).read_text()
        err = refused(command, str(tmp_path / name), *machine, *outputs)
        assert "error[DG519]" in err and "it is the file that is read" in err and "help: " in err
        assert (tmp_path / name).read_text() == before


def test_fault_writes_a_reproducer(
    dspgen: Run, examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("dspgen.cli.main.run_file", broken)
    monkeypatch.chdir(tmp_path)
    status, out, err = dspgen("run", str(examples / "dot.c"), "--isa", "ft_m7002")
    assert (status, out) == (3, "")
    assert "internal fault: ZeroDivisionError: planted" in err and "Traceback" not in err
    (reproducer,) = tmp_path.glob("dspgen-fault-*.txt")
    assert reproducer.name in err
    text = reproducer.read_text()
    assert "planted" in text and "void dot(" in text and "--isa ft_m7002" in text


def test_outputs_are_checked_before_the_work(
    refused: Callable[..., str], examples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worked(*_: object, **__: object) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("dspgen.cli.main.compile_file", worked)
    monkeypatch.setattr("dspgen.cli.main.run_file", worked)
    (tmp_path / "file").write_text("in the way")
    dot = [str(examples / "dot.c"), "--isa", "ft_m7002", "-D", "N=16"]
    blocked = str(tmp_path / "file" / "deeper")
    for arguments in (
        ["run", *dot, "--outputs", f"{blocked}/out.npz"],
        ["run", *dot, "--outputs", str(tmp_path)],
        ["compile", *dot, "-o", blocked],
        ["compile", *dot, "--dump-dir", blocked],
    ):
        assert refused(*arguments).count("error[DG504]") == 1


def test_outputs_make_their_folder(dspgen: Run, examples: Path, tmp_path: Path) -> None:
    path = tmp_path / "new" / "deeper" / "out.npz"
    dot = [str(examples / "dot.c"), "--isa", "ft_m7002", "-D", "N=16", "--data", "onchip"]
    assert dspgen("run", *dot, "--outputs", str(path))[0] == 0 and path.is_file()


@pytest.mark.parametrize("allowed", range(4))
def test_a_full_disk_leaves_nothing(
    allowed: int, refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write that fails is done by half; what was there before stays, and nothing new comes."""
    (tmp_path / "f.c").write_text("void f(int y[16]) { for (int i = 0; i < 16; i++) y[i] = i; }")
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "f.s").write_text("old")
    write, done = Path.write_bytes, 0

    def full(path: Path, data: bytes) -> int:
        nonlocal done
        if path.parent == folder:
            if done == allowed:
                write(path, bytes(data)[:5])
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
            done += 1
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    emitted = ["--emit", "asm,lasm,h,json", "-o", str(folder)]
    err = refused("compile", str(tmp_path / "f.c"), "--isa", "ft_m7002", *emitted)
    assert "error[DG504]" in err and "No space left" in err and "help: make room there" in err
    assert [(p.name, p.read_text()) for p in folder.iterdir()] == [("f.s", "old")]


def test_links_and_permissions_of_files_stay(tmp_path: Path) -> None:
    real, link = tmp_path / "real.s", tmp_path / "link.s"
    real.write_text("old")
    real.chmod(0o640)
    link.symlink_to(real)
    io.write_files({link: "new", Path(os.devnull): "nothing"})
    assert link.is_symlink() and real.read_text() == "new" and real.stat().st_mode & 0o777 == 0o640
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.s", "real.s"]
