"""Every rewrite row against the meaning of its operations, on random lanes, and the rows' conditions the other way."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from dspgen.rewrite.egraph.side_conditions import facts_of
from dspgen.rewrite.graph.enodes import Memory, Node, TermGraph, unsaturated
from dspgen.rewrite.graph.loop_invariants import invariant_nodes
from dspgen.rewrite.graph.patterns import Linear, LoadPattern, RuleError, parse_side
from dspgen.rewrite.optimize import optimise
from dspgen.rewrite.rules.row import Rule
from dspgen.rewrite.rules.shapes import lane_rules
from dspgen.rewrite.rules.table import RULES, Instance, check_rule, instances_of
from dspgen.target.load import isa_names, load_target
from dspgen.vecdsl.analysis.integer_ranges import readable
from dspgen.vecdsl.ir.printer import print_program
from dspgen.vecdsl.ir.program import NARROW, Address, ArrayDecl, Const, Load, Loop, Op, Program, Store, Term, VType
from dspgen.vecdsl.ir.semantics import IEEE
from tests.support.rule_samples import LANES, Sample, differs, same

ALL = {r.name: r for r in (*RULES, *lane_rules(LANES))}


def instances(rule: Rule) -> list[Instance]:
    return instances_of(rule, ("i32", "f32", "f64", *NARROW), "reassoc", LANES)


@pytest.mark.parametrize("name", list(ALL))
def test_sides_mean_the_same(name: str) -> None:
    found = instances(ALL[name])
    assert found
    for instance in found:
        assert differs(instance) is None, (instance.elem, differs(instance))


def test_names_are_unique() -> None:
    assert len(ALL) == len(RULES) + len(lane_rules(LANES))


@pytest.mark.parametrize("isa", isa_names())
def test_rows_of_the_isa_files_mean_the_same(isa: str) -> None:
    target = load_target(isa)
    lanes = target.lanes
    for row in target.rewrites:
        rule = Rule(row.name, row.left, row.right, row.when, row.why)
        assert check_rule(rule) is None
        for instance in instances_of(rule, ("i32", "f32", "f64"), "reassoc", lanes):
            assert differs(instance, 20, lanes) is None, (row.name, instance.elem, differs(instance, 20, lanes))


# A rule with one of its conditions taken away must be seen to be wrong: (name, the condition's text, a type).
CONDITIONS = [
    ("neg-as-sub", "reassoc", "f32"),
    ("add-zero", "reassoc", "f32"),
    ("mac-zero", "reassoc", "f32"),
    ("neg-sub", "reassoc", "f32"),
    ("mac", "contract", "f32"),
    ("msub-apart", "contract", "f32"),
    ("factor-left", "reassoc", "f32"),
    ("reduce-merge", "reassoc", "f32"),
    ("mac16", "short16 ?b", "i32"),
    ("sext16-of-short", "short16 ?a", "i32"),
    ("lt-as-sign", "short31 ?a", "i32"),
    ("or-as-add", "apart ?a ?b", "i32"),
]


@pytest.mark.parametrize(("name", "condition", "elem"), CONDITIONS)
def test_conditions_are_needed(name: str, condition: str, elem: str) -> None:
    rule = ALL[name]
    items = [w.strip() for w in rule.when.split(",")]
    assert condition in items
    bare = replace(rule, when=", ".join(w for w in items if w != condition))
    (instance,) = instances_of(bare, (elem,), "reassoc", LANES)
    assert differs(instance, 200) is not None


def test_comparisons_of_not_a_number_forbid_the_integer_row() -> None:
    (instance,) = instances_of(replace(ALL["le-as-not-lt"], when=""), ("f32",), "reassoc", LANES)
    sample = Sample(instance, IEEE, random.Random(1), gentle=False)
    sample.values = {name: np.full_like(v, np.nan) for name, v in sample.values.items()}
    assert not same(sample.evaluate(instance.typed.left[0]), sample.evaluate(instance.typed.right[0]), tolerant=False)


MUTANTS = [
    ("mac", "(mac.T ?a ?b ?c)", "(mac.T ?a ?c ?b)"),
    ("nmac", "(nmac.T ?a ?b ?c)", "(msub.T ?a ?b ?c)"),
    ("sub-as-nmac", "(nmac.T ?b 1 ?a)", "(nmac.T ?a 1 ?b)"),
    ("factor-left", "(add.T ?b ?c)", "(sub.T ?b ?c)"),
    ("neg-as-xor", "-2147483648", "1073741824"),
    ("abs-as-and", "2147483647", "-2147483648"),
    ("pair-scalar", "(hi.T (ld_pair.T ?m ?c))", "(hi.T (ld_pair.T ?m ?c+1))"),
    ("pair-vector", "(hi.T (ld_pair.T ?m ?c 1))", "(lo.T (ld_pair.T ?m ?c 1))"),
    ("pair-stride-2", "(lo.T (ld_pair.T ?m ?c 2))", "(lo.T (ld_pair.T ?m ?c 1))"),
    ("pair-broadcast", "(hi.T (bcast_pair.T ?p))", "(lo.T (bcast_pair.T ?p))"),
    ("load-as-align", "(align.T.?k", "(align.T.1"),
    ("load-as-odd", "(odd.T", "(even.T"),
    ("load-as-reverse", "?c-lanes+1", "?c-lanes"),
    ("lane-of-load", "?c+?k", "?c"),
    ("select-not", "?c ?b ?a", "?c ?a ?b"),
    ("max-as-select", "(lt.T ?b ?a)", "(lt.T ?a ?b)"),
    ("div-as-shr", "(sub.i32 32 ?k)", "?k"),
    ("reduce-merge-sub", "(sub.T ?a ?b)", "(add.T ?a ?b)"),
    ("sext16-as-shifts", "(shl.i32 ?a 16) 16", "(shl.i32 ?a 15) 15"),
    ("le-as-or", "(or.i32", "(and.i32"),
    ("reduce-add-by-lanes", "lane.T.3", "lane.T.2"),
]


@pytest.mark.parametrize(("name", "old", "new"), MUTANTS)
def test_a_wrong_row_is_seen(name: str, old: str, new: str) -> None:
    rule = ALL[name]
    assert old in rule.right
    mutant = replace(rule, right=rule.right.replace(old, new))
    assert any(differs(i, 200) is not None for i in instances(mutant))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule("r", "(add.T ?a ?b", "?a"), "`(` without `)`"),
        (Rule("r", "(plus.T ?a ?b)", "?a"), "unknown operation `plus`"),
        (Rule("r", "(add.T ?a)", "?a"), "takes 2 operands"),
        (Rule("r", "(add ?a ?b)", "?a"), "element type"),
        (Rule("r", "(add.T ?a ?b)", "?a", "sometimes"), "unknown condition"),
        (Rule("r", "(add.T ?a (bcast.T ?a))", "?a"), "a scalar and a vector"),
        (Rule("r", "(add.T ?a one)", "?a"), "neither ?name nor number"),
        (Rule("r", "?a", "?a"), "must be an operation"),
        (Rule("r", "(mul.T ?a ?c)", "(shl.T ?a ?k)", "int"), "?k"),
        (Rule("r", "(ld.T ?m)", "?a"), "a load is"),
        (Rule("r", "(add.T ?a ?b)", "?c"), "?c"),
        (Rule("r", "(ldx.T ?m ?c)", "?a"), "in its left side"),
        (Rule("r", "(ld2.T ?m ?c 1 2)", "?a"), "offset stride period jump"),
        (Rule("r", "(ldx.T ?m ?c 1 ?i)", "(ld.T ?m (add.T ?i ?i) 1)"), "in its right side"),
        (Rule("r", "(shuffle.T ?a)", "?a"), "needs its pattern"),
        (Rule("r", "(shuffle.T.[0,x] ?a)", "?a"), "no list of lanes"),
        (Rule("r", "(add.T.[0,1] ?a ?b)", "?a"), "takes no pattern"),
        (Rule("r", "(lane.T.?k ?a)", "(lane.T.?j ?a)"), "?j"),
    ],
)
def test_wrong_text_is_told(rule: Rule, words: str) -> None:
    told = check_rule(rule)
    assert told is not None and "`r`" in told and words in told


def test_integer_expressions() -> None:
    (load,) = parse_side("(ld.T ?m ?c+2*lanes-1 1)")
    assert isinstance(load, LoadPattern)
    assert load.offset == Linear(-1, 2, (("?c", 1),))
    assert load.offset.value(16, {"?c": 5}) == 36
    with pytest.raises(RuleError):
        parse_side("(ld.T ?m ?c* 1)")


def test_strict_mode_leaves_out_what_rounds_otherwise() -> None:
    strict = {r.name for r in ALL.values() if instances_of(r, ("f32",), "strict")}
    assert not strict & {"mac", "msub", "nmac", "factor-left", "reduce-merge", "div-by-constant", "associate-left"}
    assert {"add-as-mac", "sub-as-msub", "mul-one", "pair-vector", "neg-as-xor"} <= strict
    assert instances_of(ALL["mac"], ("i32",), "strict")


def _symmetric(taps: int) -> str:
    """A program: the sum of `taps` products of each coefficient with two samples, the far one and the near one."""
    vector = VType("f32", True)
    total: Term = Const(0.0, vector)
    for k in range(taps):
        factor = Op("bcast", (Load("H", Address(k), 1, "f32", VType("f32", False)),), vector)
        for place in (k, 2 * taps - 1 - k):
            sample = Load("X", Address(place, (("i", 1),)), 1, "f32", vector)
            total = Op("add", (total, Op("mul", (factor, sample), vector)), vector)
    store = Store("Y", Address(0, (("i", 1),)), 1, "f32", total)
    integer = VType("i32", False)
    loop = Loop("i", Const(0, integer), Const(8, integer), 16, (), (store,), 8, 8)
    arrays = tuple(ArrayDecl(n, "f32", 256, False) for n in ("X", "H", "Y"))
    program = Program("p", ("X", "H", "Y"), arrays, (), (loop,))
    return print_program(optimise(program, load_target("ft_m7002"), readable=readable(program)).program)


def test_a_symmetric_filter_multiplies_once_for_two_samples() -> None:
    text = _symmetric(4)
    products = text.count("(mul.f32.v") + text.count("(mac.f32.v") - text.count(" 1.0:f32.v")
    assert products <= 4, text


def test_a_factor_is_reused_where_it_stays_or_several_subtracted_products_have_it() -> None:
    graph = TermGraph()
    a, b, c, d = (graph.add(Node("var", "var", "f32", True, text=name)) for name in "abcd")
    first, second = (graph.add(Node("op", "mul", "f32", True, args)) for args in ((a, b), (c, a)))
    graph.add(Node("op", "sub", "f32", True, (d, first)))

    def reused(*still: int) -> set[int]:
        found = facts_of(graph, frozenset({"reused"}), frozenset(still))
        return {f.nodes[0] for f in found}

    assert reused() == set() and reused(b, c) == {b}
    graph.add(Node("op", "add", "f32", True, (d, second)))
    assert reused() == set()
    graph.add(Node("op", "sub", "f32", True, (b, second)))
    assert reused() == {a}


def test_what_stays_the_same_over_a_loop_is_what_it_neither_changes_nor_reads_of_what_it_writes() -> None:
    graph = TermGraph()
    fixed, moving = (graph.add(Node("var", "var", "f32", True, text=name)) for name in ("fixed", "moving"))
    places = [
        graph.memory(Memory(array, 0, terms, "f32")) for array, terms in (("a", ()), ("b", ()), ("a", (("i", 1),)))
    ]
    loads = [graph.add(Node("ld", "ld", "f32", True, memory=place, stride=1)) for place in places]
    same = graph.add(Node("op", "mul", "f32", True, (fixed, loads[0])))
    graph.add(Node("op", "add", "f32", True, (same, moving)))
    found = invariant_nodes(unsaturated(graph), graph.memories, {"moving", "i"}, {"b"})
    assert set(found) == {fixed, loads[0], same}
