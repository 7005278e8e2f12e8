"""A blur of two stages. The first is computed inside the tiles of the second, again where tiles overlap, and each tile
keeps just what it needs of it."""

from __future__ import annotations

import numpy as np

from backends.cpu.kernel import compile_cpu
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan


def blur(rows: int, columns: int) -> Function:
    f = Function("blur")
    i, j = iters("i j")

    # The algorithm.
    image = f.input("image", "f32", (rows, columns))
    out = f.output("out", "f32", (rows - 2, columns - 2))
    across = f.comp("across", {i: rows, j: columns - 2}, (image[i, j] + image[i, j + 1] + image[i, j + 2]) / 3)
    down = f.comp(
        "down", {i: rows - 2, j: columns - 2}, (across[i, j] + across[i + 1, j] + across[i + 2, j]) / 3
    ).store(out)

    # The computation schedule.
    down.tile(i, j, 16, 32)
    across.compute_at(down, "j_o")

    # The memory schedule: each tile keeps its 18 rows of the first stage in an array of its own.
    rows_of_tile = f.local("rows_of_tile", "f32", (18, 32), location="stack")
    across.store(rows_of_tile, (i % 18, j % 32))
    across.alloc_at(rows_of_tile, "j_o")
    f.program["across", "down"].tag("i_o", "parallel")
    return f


def main() -> None:
    rows, columns = 70, 100
    scheduled = blur(rows, columns).scheduled
    print(print_tree(scan(scheduled)))

    image = np.random.default_rng(0).random((rows, columns), np.float32)
    out = np.empty((rows - 2, columns - 2), np.float32)
    compile_cpu(scheduled)(image=image, out=out)
    across = (image[:, :-2] + image[:, 1:-1] + image[:, 2:]) / 3
    np.testing.assert_allclose(out, (across[:-2] + across[1:-1] + across[2:]) / 3, rtol=1e-5)
    print("blur: the output is NumPy's")


if __name__ == "__main__":
    main()
