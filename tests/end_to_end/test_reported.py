"""Small programs that were compiled wrongly, refused or made slow once, one for each kind: `tests/reported`.

Each is right on every machine, or is refused with the code that is written here; a refusal that goes away shows.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.driver.cpu import run_cpu
from dspgen.driver.pipeline import compile_file, run_file
from dspgen.errors import DspgenError
from dspgen.options import Options
from dspgen.target.load import load_target
from plant_core.support.location import PlantError

FOLDER = Path(__file__).parents[1] / "reported"
MACHINES = ("ft_m7002", "ft_mt3000", "ft_lite", "hexagon_v66")
SIZES: dict[str, dict[str, int]] = {
    "autocor_short_any_size": {"nx": 40, "nr": 8},
    "cfir": {"nh": 4, "nr": 20},
    "short_inner_trips": {"nx": 6, "nk": 5},
}
# The machine on which a program was wrong; others are tried at night.
RIGHT = {
    "and_in_condition": "ft_m7002",
    "and_of_conditions_guard": "hexagon_v66",
    "conditional_diagonal_in_place": "ft_m7002",
    "conditional_diagonal_load": "ft_lite",
    "conditional_shifted_rows": "ft_mt3000",
    "conditional_strided_load": "ft_lite",
    "quotient_by_choice_bound": "ft_m7002",
    "shift_by_condition_bound": "ft_mt3000",
    "strided_flow": "ft_m7002",
}
SLOW = (
    "argmax_goto",
    "autocor_short_any_size",
    "break_at_0",
    "cfir",
    "coupled",
    "double_const",
    "five_gathers",
    "max_with_unread_index",
    "private_row",
    "short_inner_trips",
    "transposed_conv",
)
REFUSED = {
    "descending_bit_search": "DG013",
    "form_acc64": "DG331",
    "form_chain": "DG013",
    "form_circular": "DG007",
    "form_floor": "DG331",
    "form_halving": "DG009",
    "form_halving_ushort": "DG009",
    "form_mulhi": "DG331",
    "form_nassert": "DG008",
    "form_negative": "DG012",
    "form_power": "DG013",
    "form_pun": "DG013",
    "form_rowpar": "DG011",
    "form_stride2rows": "DG007",
    "form_structptr": "DG013",
    "form_swap_inputs": "DG013",
    "form_unsigned_minus": "DG017",
    "form_voidcast": "DG013",
    "form_while_shift": "DG008",
    "mask": "DG007",
    "neg": "DG012",
    "vol": "DG006",
}
CYCLES = {"max_with_unread_index": 150, "break_at_0": 60}
"""On ft_m7002, data on the chip."""
ELSEWHERE = {"nine": "test_many_arguments", "nine_params": "test_many_arguments"}
TEXTS = {"addvar.sa": "DG342", "ext.s": "DG403", "pair.s": "DG405"}

CASES = [(name, isa) for name in (*RIGHT, *SLOW) for isa in MACHINES]
QUICK = {*RIGHT.items(), *((name, "ft_m7002") for name in CYCLES)}


def test_every_program_is_in_a_list() -> None:
    listed = {*RIGHT, *SLOW, *REFUSED, *ELSEWHERE}
    assert {path.stem for path in FOLDER.glob("*.c")} == listed


@pytest.mark.parametrize(
    ("name", "isa"), [pytest.param(*case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES]
)
def test_right_on_a_machine(name: str, isa: str) -> None:
    target = load_target(isa)
    result = run_file(str(FOLDER / f"{name}.c"), target, Options(data="onchip"), inputs=SIZES.get(name))
    assert result.verified, result.details
    if name in CYCLES and isa == "ft_m7002":
        assert result.cycles <= CYCLES[name]


@pytest.mark.parametrize("name", [*RIGHT, *SLOW])
def test_right_on_this_computer(name: str) -> None:
    result = run_cpu(str(FOLDER / f"{name}.c"), Options(), repeats=1, inputs=SIZES.get(name))
    assert result.verified, result.details


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_reason(name: str) -> None:
    with pytest.raises((DspgenError, PlantError)) as caught:
        compile_file(str(FOLDER / f"{name}.c"), load_target("ft_m7002"), Options(data="onchip"))
    assert isinstance(caught.value, DspgenError)
    assert caught.value.problems[0].code == REFUSED[name]
    assert all(problem.loc is not None and problem.remedy for problem in caught.value.problems)


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_refused_with_a_reason(name: str, dspgen, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    command = ["schedule", "-o", str(tmp_path)] if name.endswith(".sa") else ["sim"]
    status, _, told = dspgen(*command, str(FOLDER / name), "--isa", "ft_m7002")
    assert status == 2 and f"error[{TEXTS[name]}]" in told and "help:" in told


def test_linear_text_of_pointers_that_may_share_memory(dspgen, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    status, _, told = dspgen("schedule", "-o", str(tmp_path), str(FOLDER / "alias.sa"), "--isa", "ft_m7002")
    assert status == 0, told
