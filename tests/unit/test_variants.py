"""Which sets of rules a plan's code is made with."""

from __future__ import annotations

from unittest.mock import patch

import pytest

from dspgen.backend.stages import Planned
from dspgen.errors import NoSchedule, Problem, TooHard
from dspgen.options import REWRITE_MODES, Options
from dspgen.search.rewrite_variants import Variants
from dspgen.target.load import load_target


def no_plan() -> Planned:
    raise AssertionError("nothing is planned here")


@pytest.mark.parametrize(
    ("refusal", "others", "tried"),
    [(TooHard, False, 3), (TooHard, True, 1), (NoSchedule, True, 3)],
)
def test_loops_too_hard_for_all_rules_are_not_tried_with_fewer_where_there_are_others(
    refusal: type[NoSchedule], others: bool, tried: int
) -> None:
    variants = Variants(no_plan, load_target("ft_m7002"), Options(), most=800)
    with patch.object(Variants, "under", side_effect=refusal(Problem("DG308", "refused"))) as under:
        with pytest.raises(refusal):
            variants.least(REWRITE_MODES[-1], fresh=False, others=others)
    assert under.call_count == tried


def test_rules_between_two_sets_by_which_code_is_refused_are_not_tried() -> None:
    variants = Variants(no_plan, load_target("ft_m7002"), Options(), most=800)
    refusal = NoSchedule(Problem("DG303", "no registers"))
    variants.made[REWRITE_MODES[0]] = refusal
    with patch.object(Variants, "under", side_effect=refusal) as under:
        with pytest.raises(NoSchedule):
            variants.least(REWRITE_MODES[-1], fresh=False)
    assert [call.args[0] for call in under.call_args_list] == [REWRITE_MODES[-1], REWRITE_MODES[0]]
