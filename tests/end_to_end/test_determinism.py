"""Same input, same bytes: the hash seed of the Python that runs reaches no output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.examples import SMALL


@pytest.mark.parametrize("name", ["conv2d_full", "dot"])
def test_hash_seed_does_not_matter(name: str, root: Path, tmp_path: Path) -> None:
    sizes = [f"-D{key}={value}" for key, value in SMALL[name].items()]
    texts = []
    for seed in ("0", "1", "12345"):
        folder = tmp_path / seed
        command = [sys.executable, "-m", "dspgen", "compile", f"examples/{name}.c", "--isa", "ft_m7002", *sizes]
        command += ["--emit", "asm,lasm,h,json", "-o", str(folder)]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, cwd=root, env=environment, stdout=subprocess.DEVNULL)
        texts.append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert sorted(texts[0]) == sorted(f"{name}{suffix}" for suffix in (".h", ".json", ".s", ".sa"))
    assert texts[0] == texts[1] == texts[2]
