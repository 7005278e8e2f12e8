"""The integer kernels of `bench hexagon` in Halide, scheduled as its users would: a rival's code.

Run as a program with two files: a JSON object with `kernel`, `schedule` (a number), `target` (Halide's name of it),
`vector` (bytes) and `params` (objects with `name`, `type`, `bits` and `shape`; the first one is what the kernel
writes), and the object file to be made. The function in it takes all parameters, arrays as buffers, then the buffer to
be written. It ends with status 3 where there is no schedule of that number, with 4 where Halide refuses it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Job = dict[str, Any]
NO_SCHEDULE, REFUSED = 3, 4


class Kernel:
    """The parameters as Halide has them; of arrays the last dimension comes first."""

    def __init__(self, job: Job) -> None:
        import halide

        self.hl: Any = halide
        self.bytes: int = job["vector"]
        self.lanes = self.bytes // 4
        self.shapes = {p["name"]: tuple(p["shape"]) for p in job["params"]}
        self.params: dict[str, Any] = {}
        for param in job["params"]:
            name, shape = param["name"], param["shape"]
            kind = getattr(halide, param["type"])(*param.get("bits", ()))
            self.params[name] = halide.ImageParam(kind, len(shape), name) if shape else halide.Param(kind, name)
            if shape:
                self.dense(self.params[name], shape)
        self.x, self.y, self.xo, self.yo, self.xi, self.yi, self.u = map(halide.Var, "x y xo yo xi yi u".split())

    def dense(self, buffer: Any, shape: list[int]) -> None:
        stride = 1
        for k, extent in enumerate(reversed(shape)):
            buffer.dim(k).set_bounds(0, extent).set_stride(stride)
            stride *= extent
        buffer.set_host_alignment(self.bytes)

    def wide(self, value: Any, kind: str = "Int", bits: int = 32) -> Any:
        return self.hl.cast(getattr(self.hl, kind)(bits), value)

    def narrow(self, name: str) -> bool:
        return int(self.params[name].type().bits()) < 32


def matmul(k: Kernel, number: int) -> Any:
    """Blocks of the result in registers, the vectors along its rows."""
    blocks = [(64, 8, 1), (64, 4, 1), (64, 8, 2), (64, 4, 2), (32, 8, 1), (64, 4, 4)]
    columns, rows, deep = blocks[number]
    a, b, size = k.params["A"], k.params["B"], k.shapes["B"][0]
    r = k.hl.RDom([(0, size)])
    product, out = k.hl.Func("product"), k.hl.Func("out")
    product[k.x, k.y] = k.wide(0)
    product[k.x, k.y] += k.wide(a[r.x, k.y]) * k.wide(b[k.x, r.x])
    out[k.x, k.y] = product[k.x, k.y]
    wide = columns if k.narrow("B") else k.lanes
    out.tile(k.x, k.y, k.xo, k.yo, k.xi, k.yi, columns, rows).vectorize(k.xi, wide).unroll(k.xi).unroll(k.yi)
    product.compute_at(out, k.xo).vectorize(k.x, wide).unroll(k.x).unroll(k.y)
    update = product.update().reorder(k.x, k.y, r.x).vectorize(k.x, wide).unroll(k.x).unroll(k.y)
    if deep > 1:
        update.unroll(r.x, deep)
    return out


def conv(k: Kernel, number: int) -> Any:
    """All taps at once, for a vector of a row, or of some rows."""
    rows = (1, 2, 4, 8)[number]
    x, w, (height, width) = k.params["x"], k.params["w"], k.shapes["w"]
    out = k.hl.Func("out")
    taps = [(p, q) for p in range(height) for q in range(width)]
    out[k.x, k.y] = sum((k.wide(x[k.x + q, k.y + p]) * k.wide(w[q, p]) for p, q in taps[1:]), start=_first(k, x, w))
    out.vectorize(k.x, k.lanes)
    return out.unroll(k.y, rows) if rows > 1 else out


def _first(k: Kernel, x: Any, w: Any) -> Any:
    return k.wide(x[k.x, k.y]) * k.wide(w[0, 0])


def fir(k: Kernel, number: int) -> Any:
    """All taps at once; or tap after tap, for many vectors in registers."""
    x, h, taps, size = k.params["x"], k.params["h"], k.shapes["h"][0], k.shapes["y"][0]
    out = k.hl.Func("out")
    if number in (0, 1):
        terms = [k.wide(x[k.x + t]) * k.wide(h[t]) for t in range(taps)]
        out[k.x] = sum(terms[1:], start=terms[0])
        return out.vectorize(k.x, k.lanes * (number + 1))
    block, wide, deep = [(size, 1, 1), (size, 2, 1), (size // 2, 2, 2), (size // 2, 1, 4), (size, 2, 4)][number - 2]
    r, total = k.hl.RDom([(0, taps)]), k.hl.Func("total")
    total[k.x] = k.wide(0)
    total[k.x] += k.wide(x[k.x + r.x]) * k.wide(h[r.x])
    out[k.x] = total[k.x]
    out.split(k.x, k.xo, k.xi, block).vectorize(k.xi, wide * k.lanes).unroll(k.xi)
    total.compute_at(out, k.xo).vectorize(k.x, wide * k.lanes).unroll(k.x)
    update = total.update().reorder(k.x, r.x).vectorize(k.x, wide * k.lanes).unroll(k.x)
    if deep > 1:
        update.unroll(r.x, deep)
    return out


def autocor(k: Kernel, number: int) -> Any:
    """Sums along the lanes, one for each lag, joined at its end; or the lags along the lanes."""
    x, lags = k.params["x"], k.shapes["r"][0]
    size = k.shapes["x"][0] - lags
    out = k.hl.Func("out")
    if number == 0:
        r = k.hl.RDom([(0, size)])
        out[k.x] = k.wide(0)
        out[k.x] += x[r.x] * x[r.x + k.x]
        out.vectorize(k.x, lags)
        out.update().reorder(k.x, r.x).vectorize(k.x, lags).unroll(r.x, 4)
        return out
    _sums(k, out, lambda at, lag: x[at] * x[at + lag], size, (1, 2, 8)[number - 1])
    return out


def dot(k: Kernel, number: int) -> Any:
    x, y = k.params["x"], k.params["y"]
    out = k.hl.Func("out")
    _sums(k, out, lambda at, lag: x[at] * y[at], k.shapes["x"][0], (1, 2, 4, 8)[number])
    return out


def _sums(k: Kernel, out: Any, term: Callable[[Any, Any], Any], size: int, deep: int) -> None:
    part = k.hl.Func("part")
    r, lane = k.hl.RDom([(0, size // k.lanes)]), k.hl.RDom([(0, k.lanes)])
    part[k.u, k.x] = k.wide(0)
    part[k.u, k.x] += term(r.x * k.lanes + k.u, k.x)
    out[k.x] = k.wide(0)
    out[k.x] += part[lane.x, k.x]
    part.compute_at(out, k.x).vectorize(k.u)
    update = part.update().reorder(k.u, r.x).vectorize(k.u)
    if deep > 1:
        update.unroll(r.x, deep)
    out.update().atomic().vectorize(lane.x)


def saxpy(k: Kernel, number: int) -> Any:
    deep = (1, 2, 4)[number]
    out = k.hl.Func("out")
    out[k.x] = k.params["y"][k.x] + k.params["a"] * k.params["x"][k.x]
    out.vectorize(k.x, k.lanes)
    return out.unroll(k.x, deep) if deep > 1 else out


def box(k: Kernel, number: int) -> Any:
    x, bits = k.params["x"], _bits(number)
    out = k.hl.Func("out")
    terms = [k.wide(x[k.x + q, k.y + p], "UInt", bits) for p in range(3) for q in range(3)]
    seven, six = (k.wide(n, "UInt", bits) for n in (7, 6))
    out[k.x, k.y] = k.wide(sum(terms[1:], start=terms[0]) * seven >> six, "UInt", 8)
    return _bytes(k, out, number)


def _bits(number: int) -> int:
    return 16 if number < 2 else 32


def _bytes(k: Kernel, out: Any, number: int) -> Any:
    """Rows are a little shorter than a vector: its lanes beyond them are left out, or words hold a byte each."""
    guarded, rows = [(True, 1), (True, 2), (False, 1), (False, 2)][number]
    if guarded:
        out.vectorize(k.x, k.bytes, k.hl.TailStrategy.GuardWithIf)
    else:
        out.vectorize(k.x, k.lanes)
    return out.unroll(k.y, rows) if rows > 1 else out


def sobel(k: Kernel, number: int) -> Any:
    """Sums in a row of their own, whose last vector is whole: Halide 21 fails for differences under a guard."""

    def weighted(*places: tuple[int, int]) -> Any:
        first, middle, last = (k.wide(k.params["x"][k.x + q, k.y + p], "UInt", 16) for p, q in places)
        return first + middle * k.hl.u16(2) + last

    out, row = k.hl.Func("out"), k.hl.Func("row")
    down = k.hl.absd(weighted((0, 0), (0, 1), (0, 2)), weighted((2, 0), (2, 1), (2, 2)))
    across = k.hl.absd(weighted((0, 0), (1, 0), (2, 0)), weighted((0, 2), (1, 2), (2, 2)))
    row[k.x, k.y] = down + across
    out[k.x, k.y] = k.wide(k.hl.min(row[k.x, k.y], k.hl.u16(255)), "UInt", 8)
    rows, columns = [(1, 64), (2, 64), (1, 128), (2, 128)][number]
    out.vectorize(k.x, k.bytes, k.hl.TailStrategy.GuardWithIf)
    row.compute_at(out, k.y).vectorize(k.x, columns, k.hl.TailStrategy.RoundUp)
    return out.unroll(k.y, rows) if rows > 1 else out


KERNELS: dict[str, Callable[[Kernel, int], Any]] = {
    f.__name__: f for f in (matmul, conv, fir, autocor, dot, saxpy, box, sobel)
}


def main(source: str, made: str) -> int:
    job: Job = json.loads(Path(source).read_text(encoding="utf-8"))
    kernel = Kernel(job)
    try:
        out = KERNELS[job["kernel"]](kernel, job["schedule"])
    except IndexError:
        return NO_SCHEDULE
    kernel.dense(out.output_buffer(), job["params"][0]["shape"])
    target = kernel.hl.Target(job["target"])
    try:
        out.compile_to({kernel.hl.OutputFileType.object: made}, list(kernel.params.values()), "generated", target)
    except kernel.hl.HalideError as refusal:
        print(refusal, file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
