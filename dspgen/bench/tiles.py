"""The register tiles of the four kernels that the seed paper measures, for any number of lanes, as vector programs."""

from __future__ import annotations

from collections.abc import Callable

from dspgen.vecdsl.ir.program import (
    Address,
    ArrayDecl,
    Carried,
    Const,
    Load,
    Loop,
    Op,
    Program,
    Stmt,
    Store,
    Term,
    Var,
    VType,
)

_FLOATS = VType("f32", True)
_FLOAT = VType("f32", False)
_INT = VType("i32", False)
_TRIP = 64


def _load(array: str, constant: int, type: VType = _FLOATS, **terms: int) -> Load:
    return Load(array, Address(constant, tuple(sorted(terms.items()))), 1, "f32", type)


def _spread(array: str, constant: int, **terms: int) -> Op:
    return Op("bcast", (_load(array, constant, _FLOAT, **terms),), _FLOATS)


def _op(name: str, *args: Term) -> Op:
    return Op(name, args, args[0].type)


def _store(array: str, constant: int, value: Term, **terms: int) -> Store:
    return Store(array, Address(constant, tuple(sorted(terms.items()))), 1, "f32", value)


def _program(name: str, arrays: str, body: tuple[Stmt, ...], lanes: int) -> Program:
    names = tuple(arrays.split())
    decls = tuple(ArrayDecl(n, "f32", 64 * _TRIP * max(lanes, 16), False) for n in names)
    return Program(name, names, decls, (), body)


def _loop(body: tuple[Stmt, ...], carried: tuple[Carried, ...] = ()) -> Loop:
    return Loop("i", Const(0, _INT), Const(_TRIP, _INT), 1, carried, body, _TRIP, _TRIP)


def matrix_product(lanes: int, rows: int = 4, vectors: int = 4) -> Program:
    """C[r][...] += A[r][i] * B[i][...]."""
    width = vectors * lanes
    places = [(r, c) for r in range(rows) for c in range(vectors)]
    carried = []
    for r, c in places:
        product = _op("mul", _spread("A", r * _TRIP, i=1), _load("B", c * lanes, i=width))
        carried.append(Carried(f"c{r}_{c}", Const(0.0, _FLOATS), _op("add", Var(f"c{r}_{c}", _FLOATS), product)))
    stores = tuple(_store("C", r * width + c * lanes, Var(f"c{r}_{c}", _FLOATS)) for r, c in places)
    return _program("matrix_product", "A B C", (_loop((), tuple(carried)), *stores), lanes)


def convolution(lanes: int, rows: int = 4, taps: int = 4) -> Program:
    """out[i][...] = sum of in[i + k][... + l] * f[k][l], for some rows of a strip one vector wide."""
    width = lanes + taps
    stores = []
    for r in range(rows):
        total: Term = Const(0.0, _FLOATS)
        for k in range(taps):
            for tap in range(taps):
                window = _load("I", (r + k) * width + tap, i=rows * width)
                total = _op("add", total, _op("mul", window, _spread("F", k * taps + tap)))
        stores.append(_store("O", r * lanes, total, i=rows * lanes))
    return _program("convolution", "I F O", (_loop(tuple(stores)),), lanes)


def autocorrelation(lanes: int, vectors: int = 2, unrolled: int = 4) -> Program:
    """r[...] += x[i] * x[i + ...], lags across the lanes."""
    carried = []
    for v in range(vectors):
        total: Term = Var(f"r{v}", _FLOATS)
        for u in range(unrolled):
            product = _op("mul", _spread("X", u, i=unrolled), _load("X", u + v * lanes, i=unrolled))
            total = _op("add", total, product)
        carried.append(Carried(f"r{v}", Const(0.0, _FLOATS), total))
    stores = tuple(_store("R", v * lanes, Var(f"r{v}", _FLOATS)) for v in range(vectors))
    return _program("autocorrelation", "X R", (_loop((), tuple(carried)), *stores), lanes)


def fourier_transform(lanes: int, butterflies: int = 8) -> Program:
    """One stage: each butterfly on a vector of neighbours, with one factor for all lanes."""
    half = butterflies * lanes
    stores = []
    for b in range(butterflies):
        at = b * lanes
        ar, ai, br, bi = (_load(x, at + h, i=2 * half) for h in (0, half) for x in ("XR", "XI"))
        wr, wi = _spread("WR", b, i=butterflies), _spread("WI", b, i=butterflies)
        dr, di = _op("sub", ar, br), _op("sub", ai, bi)
        stores += [
            _store("YR", at, _op("add", ar, br), i=2 * half),
            _store("YI", at, _op("add", ai, bi), i=2 * half),
            _store("YR", at + half, _op("sub", _op("mul", wr, dr), _op("mul", wi, di)), i=2 * half),
            _store("YI", at + half, _op("add", _op("mul", wr, di), _op("mul", wi, dr)), i=2 * half),
        ]
    return _program("fourier_transform", "XR XI WR WI YR YI", (_loop(tuple(stores)),), lanes)


TILES: tuple[Callable[[int], Program], ...] = (matrix_product, convolution, autocorrelation, fourier_transform)
