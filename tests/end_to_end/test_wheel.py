"""The wheel holds everything that a kernel needs, away from the repository."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from pathlib import Path


def test_installed_wheel_runs_a_kernel(root: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), str(root)], check=True)
    (wheel,) = tmp_path.glob("dspgen-*.whl")
    venv.create(tmp_path / "clean", with_pip=True)
    programs = tmp_path / "clean" / "bin"
    subprocess.run([str(programs / "pip"), "install", "--quiet", str(wheel)], check=True)

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copy(root / "examples" / "dot.c", elsewhere)
    command = [str(programs / "dspgen"), "run", "dot.c", "--isa", "ft_m7002", "-D", "N=50", "--json"]
    done = subprocess.run(command, check=True, cwd=elsewhere, capture_output=True, text=True)
    assert json.loads(done.stdout)["verified"] is True
