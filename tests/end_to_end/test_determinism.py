"""Same input, same bytes: the hash seed of the Python that runs reaches no output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.examples import SMALL

NAMES = ("conv2d_full", "dot")
# A process for each kernel would spend most of its time on its start.
PROGRAM = """
import sys
from dspgen.cli.main import main
for arguments in sys.argv[1:]:
    try:
        main(arguments.split())
    except SystemExit as exit:
        assert not exit.code, arguments
"""


def test_hash_seed_does_not_matter(root: Path, tmp_path: Path) -> None:
    texts = []
    for seed in ("0", "12345"):
        commands = []
        for name in NAMES:
            sizes = " ".join(f"-D{key}={value}" for key, value in SMALL[name].items())
            wanted = f"compile examples/{name}.c --isa ft_m7002 {sizes} --emit asm,lasm,h,json -o"
            commands.append(f"{wanted} {tmp_path / seed}")
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM, *commands]
        subprocess.run(command, check=True, cwd=root, env=environment, stdout=subprocess.DEVNULL)
        texts.append({path.name: path.read_bytes() for path in sorted((tmp_path / seed).iterdir())})
    assert sorted(texts[0]) == sorted(f"{name}{suffix}" for name in NAMES for suffix in (".h", ".json", ".s", ".sa"))
    assert texts[0] == texts[1]
