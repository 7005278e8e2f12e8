"""A new machine costs one file, which no other knows; docs/retargeting.md, whose pieces of TOML make one, is true."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dspgen.target.load import isa_names, isa_path
from tests.support.rename_isa import redraw_latencies, rename

Run = Callable[..., tuple[int, str, str]]
MOST_LINES = 150
_BLOCK = re.compile(r"^```(toml|console)\n(.*?)^```$", re.M | re.S)


def commands(block: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a console block, and the lines that it says."""
    for part in block.split("$ ")[1:]:
        command, *said = part.splitlines()
        yield command, said


def masked(line: str) -> str:
    """A table's row without its numbers, which change as the compiler does."""
    return re.sub(r"\d[\d,.]*%?", "0", re.sub(r" +", " ", line)) if line.startswith("│") else line.rstrip()


def same(said: list[str], wanted: list[str]) -> bool:
    """Whether the lines are the wanted ones; `...` stands for any number of lines, or for the rest of one."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "..." else re.escape(masked(line)).replace(r"\.\.\.", ".*") + "\n" for line in wanted
    )
    return re.fullmatch(pattern, "".join(f"{masked(line)}\n" for line in said)) is not None


def test_the_walk(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dspgen: Run) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(root / "examples")
    machine = tmp_path / "acorn.toml"
    pieces: list[str] = []
    cycles: list[int] = []
    for kind, block in _BLOCK.findall((root / "docs" / "retargeting.md").read_text(encoding="utf-8")):
        if kind == "toml":
            pieces.append(block)
            machine.write_text("\n".join(pieces), encoding="utf-8")
            continue
        for command, wanted in commands(block):
            _, *arguments = shlex.split(command)
            status, out, err = dspgen(*arguments)
            said = [*err.splitlines(), *out.splitlines()]
            assert same(said, wanted), f"{command}\n" + "\n".join(said)
            assert status == (2 if any("error[" in line for line in wanted) else 0)
            cycles += [int(row.replace(",", "")) for row in re.findall(r"│ matmul │ +([\d,]+) │", out)]
    assert len(machine.read_text(encoding="utf-8").splitlines()) < MOST_LINES
    scalar, vector = cycles
    assert 8 * vector <= scalar


PROGRAM = ("dspgen", "plant_core", "backends")


def program(root: Path, folder: Path) -> None:
    """The program without any machine."""
    for name in PROGRAM:
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "isa").mkdir()


def files(folder: Path) -> dict[str, str]:
    """What each file holds; what Python keeps of its modules is none of them."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("isa", isa_names())
def test_a_retarget_touches_one_file(isa: str, root: Path, tmp_path: Path) -> None:
    """A machine with names and latencies that nothing has seen, dropped into a program that has no other."""
    program(root, tmp_path)
    before = files(tmp_path)
    text = isa_path(isa).read_text(encoding="utf-8")
    (tmp_path / "isa" / "strange.toml").write_text(redraw_latencies(rename(text, 3), 3), encoding="utf-8")
    kernel = ["-m", "dspgen", "run", str(root / "examples" / "saxpy.c"), "-D", "N=67", "--isa", "strange"]
    said = subprocess.run([sys.executable, *kernel], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    after = files(tmp_path)
    assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == {
        "isa/strange.toml"
    }
