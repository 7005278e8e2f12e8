"""Bounds checks of arrays in hand-written assembly: loads, stores and transfers outside of them, on both engines."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.sim.run import Engine, SimResult, simulate
from dspgen.target.load import load_target
from tests.unit.test_sim_dma import BASE, COPY, numbers, start, wait

TARGET = load_target("ft_m7002")
RETURN = " SBR R62\n SNOP 6\n"
POINTERS = " SMVAGA36 R11:R10, AR11\n SNOP 1\n SMVAGA36 R13:R12, AR12\n SNOP 1\n"
PADDING = {"x0": (8, 63), "x1": (0, 63)}
VECTOR = 64


@pytest.fixture(params=["python", "native"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param  # type: ignore[no-any-return]


def run(engine: Engine, body: str, *arrays: np.ndarray, **how: object) -> SimResult:
    """x0 in R10 and AR11, x1 in R12 and AR12."""
    arguments = [(f"x{i}", a) for i, a in enumerate(arrays)]
    options: dict[str, object] = {"readable": PADDING, "strict": True} | how
    text = f".global f\nf:\n{POINTERS}{body}{RETURN}"
    return simulate(text, TARGET, arguments=arguments, engine=engine, file="<f.s>", **options)  # type: ignore[arg-type]


def refused(engine: Engine, body: str, *arrays: np.ndarray, **how: object) -> str:
    with pytest.raises(SourceError) as caught:
        run(engine, body, *arrays, **how)
    return caught.value.render()


def load(offset: int) -> str:
    return f" SLDW *{'+-'[offset < 0]}AR11[{abs(offset)}], R20\n SNOP 5\n"


def store(offset: int) -> str:
    return f" SMOVIL 5, R42\n SSTW R42, *{'+-'[offset < 0]}AR11[{abs(offset)}]\n SNOP 5\n"


TWO_ROWS = {"destination_step": 4, "rows": 2, "row_bytes": 4}
ARRAYS = numbers(20), numbers(20)  # 80 bytes each: neither a multiple of a vector nor of the alignment


@pytest.mark.parametrize("body", [store(0), store(19), load(0), load(19), load(20), load(34), load(-2)])
def test_arrays_and_their_padding(engine: Engine, body: str) -> None:
    run(engine, body, *ARRAYS)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (store(20), r"SSTW writes 4 bytes at 0x\w+, up to 4 bytes past the end of x0 \(0x\w+, 80 bytes\)"),
        (store(-1), r"SSTW writes 4 bytes at 0x\w+, up to 4 bytes before x0 \(0x\w+, 80 bytes\)"),
        (store(36), r"up to 68 bytes past the end of x0"),
        (
            load(35),
            r"SLDW reads 4 bytes at 0x\w+, up to 64 bytes past the end of x0 .* 63 bytes past the end may be read",
        ),
        (load(-3), r"SLDW reads 4 bytes at 0x\w+, up to 12 bytes before x0 .* 8 bytes before and"),
    ],
)
def test_accesses_outside_of_every_array(engine: Engine, body: str, said: str) -> None:
    text = refused(engine, body, *ARRAYS)
    line = 3 + POINTERS.count("\n") + (" SST" in body)
    assert text.startswith(f"<f.s>:{line}:") and "error[DG436]" in text and re.search(said, text)
    run(engine, body, *ARRAYS, readable=None)


@pytest.mark.parametrize(("index", "outside"), [(4, 0), (18, 56), (20, 64)])
def test_vectors_in_the_padding_and_a_whole_one_outside(engine: Engine, index: int, outside: int) -> None:
    body = f" SMVAGA36.M2 R11:R10, AR0\n SNOP 1\n VLDW *+AR0[{index}], VR0\n SNOP 7\n"
    if outside < VECTOR:
        run(engine, body, *ARRAYS)
    else:
        assert "VLDW reads 64 bytes at 0x" in (text := refused(engine, body, *ARRAYS))
        assert f"up to {outside} bytes past the end of x0" in text


def test_no_array_may_be_stored_to_from_the_padding_of_another(engine: Engine) -> None:
    padding: Mapping[str, tuple[int, int]] = {"x0": (0, 1 << 20), "x1": (0, 0)}
    run(engine, load(200), *ARRAYS, readable=padding)
    assert "DG436" in refused(engine, store(200), *ARRAYS, readable=padding)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({}, ""),
        ({"row_bytes": 84}, "starts a transfer that writes 84 bytes at .* up to 4 bytes past the end of x1"),
        ({"row_bytes": 80}, ""),
        (TWO_ROWS | {"source_step": 76}, ""),
        (TWO_ROWS | {"source_step": 144}, "reads 148 bytes .* past the end of x0"),
    ],
)
def test_transfers_outside(engine: Engine, words: dict[str, int], said: str) -> None:
    body = BASE + start(**(COPY | words)) + wait()
    if said:
        text = refused(engine, body, *ARRAYS)
        assert "error[DG436]" in text and re.search(said, text)
    else:
        run(engine, body, *ARRAYS)
