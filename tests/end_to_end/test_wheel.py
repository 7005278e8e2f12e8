"""The wheel holds everything that a kernel needs, away from the repository."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest


def built(root: Path, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(root)], check=True)
    (wheel,) = folder.glob("dspgen-*.whl")
    return wheel


def runs_a_kernel(command: list[str], root: Path, folder: Path, path: str = "") -> bool:
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(root / "examples" / "dot.c", elsewhere)
    command = [*command, "run", "dot.c", "--isa", "ft_m7002", "-D", "N=50", "--json"]
    env = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, check=True, cwd=elsewhere, capture_output=True, text=True, env=env)
    return json.loads(done.stdout)["verified"] is True


def test_the_wheel_runs_a_kernel(root: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(built(root, tmp_path)) as wheel:
        wheel.extractall(tmp_path / "unpacked")
    code = "import dspgen.cli.main; print(dspgen.__file__)"
    unpacked = str(tmp_path / "unpacked")
    env = {**os.environ, "PYTHONPATH": unpacked}
    where = subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=tmp_path, env=env, capture_output=True, text=True
    )
    assert where.stdout.startswith(unpacked)
    assert runs_a_kernel([sys.executable, "-m", "dspgen"], root, tmp_path, unpacked)


@pytest.mark.slow
def test_the_installed_wheel_brings_what_it_needs(root: Path, tmp_path: Path) -> None:
    wheel = built(root, tmp_path)
    venv.create(tmp_path / "clean", with_pip=True)
    programs = tmp_path / "clean" / "bin"
    subprocess.run([str(programs / "pip"), "install", "--quiet", str(wheel)], check=True)
    assert runs_a_kernel([str(programs / "dspgen")], root, tmp_path)
