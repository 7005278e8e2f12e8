"""How fast the simulator runs: a hand-written matrix product, packets a second by engine.

python bench/sim_speed.py [repeats]
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

from dspgen.sim.run import Engine, simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.load import load_target

SOURCE = Path(__file__).with_suffix(".s")


def measure(engine: Engine, repeats: int) -> None:
    target = load_target("ft_m7002")
    random = np.random.default_rng(1)
    a, b = (random.standard_normal((128, 128)).astype(np.float32) for _ in range(2))
    c = np.zeros((128, 128), dtype=np.float32)
    program = assemble(SOURCE.read_text(encoding="utf-8"), target, str(SOURCE))
    arguments = [("a", a), ("b", b), ("c", c), ("repeats", repeats)]
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        result = simulate(program, target, arguments=arguments, strict=False, engine=engine)
        times.append(time.perf_counter() - begun)
        if engine == "python":
            break
    right = np.allclose(result.outputs["c"], a @ b, rtol=1e-4, atol=1e-4)
    best = min(times)
    print(
        f"{engine:8} {result.cycles:12,} cycles {result.packets:12,} packets  first {times[0]:.3f} s  "
        f"best {best:.3f} s  "
        f"{result.packets / best / 1e6:8.2f} M packets/s  {'right' if right else 'WRONG'}"
    )


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    measure("native", 1)
    measure("native", count)


if __name__ == "__main__":
    main()
