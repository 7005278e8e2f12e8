"""The DMA engine: what it moves, when it is done, and what the core must leave alone meanwhile; on both engines."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.sim.ir.dma import Span
from dspgen.sim.run import Engine, SimResult, simulate
from dspgen.target.load import load_target

TARGET = load_target("ft_m7002")
assert TARGET.dma is not None
DMA = TARGET.dma
BASE = " SMOVIL 0, R40\n SMOVIH 0x4017, R40\n SMOVIL 0, R41\n SMVAGA36 R41:R40, AR10\n SNOP 1\n"
WAIT = "{label}:\n SLDW *+AR10[{go}], R0\n SNOP 5\n [R0] SBR {label}\n SNOP 6\n"
RETURN = " SBR R62\n SNOP 6\n"


@pytest.fixture(params=["python", "native"])
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.param  # type: ignore[no-any-return]


def start(channel: int = 0, **words: int | str) -> str:
    """Stores of a channel's words, each a register's or a number; `go` last."""
    text = ""
    for word in sorted(DMA.words, key=lambda w: w == "go"):
        value = words.get(word, 1 if word == "go" else 0)
        if isinstance(value, int):
            text += f" SMOVIL {value}, R42\n"
            value = "R42"
        text += f" SSTW {value}, *+AR10[{channel * len(DMA.words) + DMA.words.index(word)}]\n"
    return text


def wait(channel: int = 0, label: str = ".W") -> str:
    return WAIT.format(label=label, go=channel * len(DMA.words) + DMA.words.index("go"))


def run(engine: Engine, body: str, *arrays: np.ndarray) -> SimResult:
    """x0 in R10, x1 in R12; x0 lies off the chip."""
    arguments = [(f"x{i}", a) for i, a in enumerate(arrays)]
    text = f".global f\nf:\n{BASE}{body}{RETURN}"
    return simulate(text, TARGET, arguments=arguments, engine=engine, placement={"x0": "DDR"}, file="f.s")


def refused(engine: Engine, body: str, *arrays: np.ndarray) -> str:
    with pytest.raises(SourceError) as caught:
        run(engine, body, *arrays)
    return caught.value.render()


def numbers(*shape: int) -> np.ndarray:
    return np.arange(1, 1 + np.prod(shape), dtype=np.int32).reshape(shape)


COPY = {"source": "R10", "destination": "R12", "rows": 1, "row_bytes": 64}


def test_rows_with_steps_of_their_own(engine: Engine) -> None:
    body = start(source="R10", source_step=24, destination="R12", destination_step=16, rows=5, row_bytes=12) + wait()
    result = run(engine, body, numbers(5, 6), np.zeros((5, 4), np.int32))
    expected = np.zeros((5, 4), np.int32)
    expected[:, :3] = numbers(5, 6)[:, :3]
    np.testing.assert_array_equal(result.outputs["x1"], expected)


def test_elements_transposed(engine: Engine) -> None:
    body = start(source="R10", source_step=24, destination="R12", destination_step=20, rows=5, row_bytes=24, element=4)
    result = run(engine, body + wait(), numbers(5, 6), np.zeros((6, 5), np.int32))
    np.testing.assert_array_equal(result.outputs["x1"], numbers(5, 6).T)


@pytest.mark.parametrize(("size", "expected"), [(64, 4), (8000, 500), (8001, 501)])
def test_a_transfer_takes_its_start_and_its_bytes(engine: Engine, size: int, expected: int) -> None:
    body = start(**(COPY | {"row_bytes": size})) + wait()
    begun = 5 + 2 * len(DMA.words) - 2  # the first cycle after the last store; `go` is read in it, and 13 later each
    turns = -(-(DMA.startup + expected) // 13)
    data = np.ones(size, np.int8)
    assert run(engine, body, data, np.zeros(size, np.int8)).cycles == begun + 13 * (turns + 1) + 7


def test_transfers_go_one_after_the_other(engine: Engine) -> None:
    second = {"source": "R12", "destination": "R14", "rows": 1, "row_bytes": 4000}
    one = start(**(COPY | {"row_bytes": 4000}))
    arrays = [np.ones(4000, np.int8) * k for k in (1, 2, 3, 4)]
    both = one + start(1, source="R14", destination="R16", rows=1, row_bytes=4000) + wait() + wait(1, ".V")
    result = run(engine, both, *arrays)
    assert 2 * 250 + DMA.startup < result.cycles < 2 * 250 + DMA.startup + 80
    np.testing.assert_array_equal(result.outputs["x1"], arrays[0])
    np.testing.assert_array_equal(result.outputs["x3"], arrays[2])
    assert "meets what the one of channel 0 moves" in refused(engine, one + start(1, **second), *arrays)


TO_X1 = " SMVAGA36 R13:R12, AR11\n SNOP 1\n"
TO_X0 = " SMVAGA36 R11:R10, AR11\n SNOP 1\n"


@pytest.mark.parametrize(
    ("access", "told"),
    [
        (TO_X1 + " SLDW *+AR11[15], R20\n", "DG431"),
        (TO_X1 + " SSTW R42, *+AR11[3]\n", "DG431"),
        (TO_X0 + " SSTW R42, *+AR11[3]\n", "DG431"),
        (TO_X1 + " SLDW *+AR11[16], R20\n SNOP 5\n", ""),
        (TO_X0 + " SLDW *+AR11[3], R20\n SNOP 5\n", ""),
    ],
)
def test_what_moves_is_left_alone_until_the_core_has_waited(engine: Engine, access: str, told: str) -> None:
    arrays = numbers(32), np.zeros(32, np.int32)
    moving = start(**COPY) + " SNOP 7\n" * 12 + access + wait()  # it is done, but the core has not read so
    if told:
        text = refused(engine, moving, *arrays)
        assert text.startswith("f.s:") and f"error[{told}]" in text and "which a transfer is moving" in text
    else:
        run(engine, moving, *arrays)
    run(engine, start(**COPY) + wait() + access, *arrays)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"destination": 16}, "whose destination reaches from 0x10 up to 0x50, not inside one memory"),
        ({"rows": 2, "source_step": 32}, "source rows of 64 bytes that begin 32 bytes apart"),
        ({"rows": 0}, "a transfer of 0 rows"),
        ({"element": 3}, "transposes elements of 3"),
    ],
)
def test_transfers_that_cannot_be(engine: Engine, words: dict[str, int], said: str) -> None:
    text = refused(engine, start(**(COPY | words)) + wait(), numbers(32), np.zeros(32, np.int32))
    assert "error[DG432]" in text and said in text


def test_a_channel_is_waited_for_before_it_starts_again_and_before_the_return(engine: Engine) -> None:
    arrays = numbers(32), np.zeros(32, np.int32)
    again = start(**COPY) + start(**COPY) + wait()
    assert "on channel 0 before it has read that the last one is done" in refused(engine, again, *arrays)
    assert "error[DG433]" in refused(engine, start(**COPY), *arrays)
    run(engine, start(**COPY) + wait() + start(**COPY) + wait(label=".V"), *arrays)


def test_spans_meet_as_their_bytes_do() -> None:
    span = Span(low=100, rows=4, row_bytes=6, step=10, written=True)
    bytes_of = {100 + 10 * i + k for i in range(4) for k in range(6)}
    for low in range(90, 150):
        for size in (1, 3, 4, 5, 11, 40):
            assert span.meets(low, low + size) == any(b in bytes_of for b in range(low, low + size))
