"""Ring blur, then Roberts edge detection back into the image: a cycle of data flow between the two arrays.

Languages that reason about intervals refuse it; exact dependences tell which schedules are legal.
"""

from __future__ import annotations

import numpy as np

from plant_core.interp.loop_tree import run_tree
from plant_core.ir.loop_tree_printer import print_tree
from plant_core.lang import Function, iters
from plant_core.scan import scan
from plant_core.support.location import IllegalSchedule


def edge_detector(rows: int, columns: int) -> Function:
    f = Function("edge_detector")
    i, j = iters("i j")

    # The algorithm: R is made from the image, and the image from R.
    image = f.output("image", "i32", (rows, columns))
    r = f.local("ring", "i32", (rows, columns))
    above = image[i - 1, j - 1] + image[i - 1, j] + image[i - 1, j + 1]
    below = image[i + 1, j - 1] + image[i + 1, j] + image[i + 1, j + 1]
    around = above + image[i, j - 1] + image[i, j + 1] + below
    ring = f.comp("R", {i: (1, rows - 1), j: (1, columns - 1)}, around / 8).store(r)
    edges = f.comp(
        "Edges",
        {i: (1, rows - 2), j: (2, columns - 1)},
        abs(ring[i, j] - ring[i + 1, j - 1]) + abs(ring[i + 1, j] - ring[i, j - 1]),
    ).store(image)

    # The computation schedule: the edges of a row follow the ring of the next, the last that reads it.
    edges.shift(i, 1)
    edges.after(ring, "i")
    ring.tag(j, "vectorize")
    edges.tag(j, "vectorize")
    return f


def expected(image: np.ndarray) -> np.ndarray:
    rows, columns = image.shape
    result, ring = image.copy(), np.zeros_like(image)
    parts = [image[1 + y : rows - 1 + y, 1 + x : columns - 1 + x] for y in (-1, 0, 1) for x in (-1, 0, 1) if y or x]
    ring[1:-1, 1:-1] = sum(parts) // 8
    for i in range(1, rows - 2):
        j = np.arange(2, columns - 1)
        result[i, j] = abs(ring[i, j] - ring[i + 1, j - 1]) + abs(ring[i + 1, j] - ring[i, j - 1])
    return result


def main() -> None:
    rows, columns = 40, 50
    f = edge_detector(rows, columns)
    scheduled = f.scheduled
    tree = scan(scheduled)
    print(print_tree(tree))

    image = np.random.default_rng(0).integers(0, 256, (rows, columns), np.int32)
    got = run_tree(scheduled.func, tree, {"image": image})["image"]
    np.testing.assert_array_equal(got, expected(image))
    try:
        f["R"].tag("i", "parallel")
    except IllegalSchedule as error:
        print(f"refused: {error.message}")
    print("edge_detector: the output is NumPy's")


if __name__ == "__main__":
    main()
