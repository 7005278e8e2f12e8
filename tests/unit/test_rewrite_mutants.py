"""Wrong rewrite rows are seen by the soundness test, and every row does in the e-graph what its text says."""

from __future__ import annotations

import pytest

from dspgen.rewrite.egraph.saturate import Limits, saturate
from dspgen.rewrite.egraph.side_conditions import facts_of
from dspgen.rewrite.rules.row import Rule
from dspgen.rewrite.rules.shapes import Shape, by_lanes, lane_rules, shape_rule
from dspgen.rewrite.rules.table import RULES, Instance, instances_of
from tests.support.rule_graphs import Sides
from tests.support.rule_mutants import campaign
from tests.support.rule_samples import LANES, differs

SHAPES = (
    shape_rule(Shape("(ld.T ?m ?c 3)", (0, 3, 6, 9), 0, 3), LANES),
    shape_rule(Shape("(ld.T ?m ?c 3)", (0, 3, 6, 9), -2, 3), LANES),
    shape_rule(Shape("(ld.T ?m ?c 4)", (0, 4, 8, 12), 0, 4), LANES),
    shape_rule(Shape("(ld.T ?m ?c -2)", (0, -2, -4, -6), -7, 2), LANES),
    shape_rule(Shape("(ld2.T ?m ?c 1 2 5)", (0, 1, 5, 6), 0, 2), LANES),
    shape_rule(Shape("(ld2.T ?m ?c 1 2 0)", (0, 1, 0, 1), -1, 1), LANES),
    shape_rule(Shape("(ldx.T ?m ?c 0 [3,0,2,2])", (3, 0, 2, 2), 0, 1), LANES),
    by_lanes("sqrt", "f32", LANES),
    by_lanes("cvt_f32_i32", "i32", LANES),
    by_lanes("lt", "f32", LANES),
)
EVERY = (*RULES, *lane_rules(LANES), *SHAPES)


def one_of(rule: Rule) -> Instance:
    return instances_of(rule, ("f32", "i32"), "reassoc", LANES)[0]


@pytest.mark.parametrize("rule", SHAPES, ids=lambda r: r.name)
def test_rules_of_shapes_mean_the_same(rule: Rule) -> None:
    for instance in instances_of(rule, ("f32", "i32"), "reassoc", LANES):
        assert differs(instance) is None


def fires(rule: Rule) -> bool:
    """Whether the rule makes its right side equal to its left side, or leads to it."""
    instance = one_of(rule)
    sides = Sides(instance, LANES)
    still = frozenset(k for k, n in enumerate(sides.graph.nodes) if n.kind == "var")
    facts = facts_of(sides.graph, frozenset(r.name for r in instance.typed.relations), still)
    made = saturate(sides.graph, (instance,), facts, LANES, Limits(3, 4000))
    return all(made.of_node[x] == made.of_node[y] for x, y in zip(sides.lefts, sides.rights, strict=False))


@pytest.mark.parametrize("part", range(8))
def test_rows_fire_on_their_own_left_side(part: int) -> None:
    assert [r.name for r in EVERY[part::32] if not fires(r)] == []


@pytest.mark.slow
def test_every_row_fires_on_its_own_left_side() -> None:
    assert [r.name for r in EVERY if not fires(r)] == []


def test_wrong_rows_are_seen() -> None:
    found = campaign(EVERY[::12], 30)
    assert found.caught > 200
    assert found.share >= 0.95, found.missed


@pytest.mark.slow
def test_wrong_rows_are_seen_for_every_row() -> None:
    found = campaign(EVERY, 40)
    print(f"caught {found.caught}, right {found.right}, missed {len(found.missed)}: {100 * found.share:.1f} %")
    print("\n".join(found.missed))
    assert found.share >= 0.95
