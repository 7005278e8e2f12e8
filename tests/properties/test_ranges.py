"""Ranges against enumeration: what an analysis says of a value holds of every value there is."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dspgen.vecdsl.analysis.integer_ranges import Ranges, trip_range, with_inner_loops
from dspgen.vecdsl.ir.program import Let, Loop, Stmt, Term
from dspgen.vecdsl.loops.simplify import decide
from tests.generators.integer_terms import TooMany, Wrapped, at, random_body, states, value

NIGHTLY = settings().max_examples > 100
SEEDS = st.integers(0, 2**40)
PARAMETERS = ("n", "m")


def _scopes(body: tuple[Stmt, ...], ranges: Ranges) -> dict[str, Ranges]:
    """What is known where each Let has just been bound, and round each Loop."""
    found = dict[str, Ranges]()
    for stmt in body:
        match stmt:
            case Let():
                ranges = ranges.after(stmt)
                found[stmt.name] = ranges
            case Loop():
                found[stmt.iterator] = ranges
                found |= _scopes(stmt.body, ranges.inside(stmt))
            case _:
                found |= _scopes(getattr(stmt, "then", ()), ranges)
    return found


class _Known:
    """What is said of one term."""

    def __init__(self, term: Term, ranges: Ranges, *, wraps: bool) -> None:
        self.term, self.bounds, self.interval = term, ranges.term(term), ranges.interval(term)
        self.verdict, self.wraps = decide(term, ranges), wraps

    def check(self, known: int, names: dict[str, int]) -> None:
        if not self.wraps:
            assert all(at(f, names) <= known for f in self.bounds.lowers), (self.term, names)
            assert all(at(f, names) >= known for f in self.bounds.uppers), (self.term, names)
        low, high = self.interval
        assert (low is None or low <= known) and (high is None or known <= high), (self.term, self.interval, known)
        assert self.verdict is None or self.verdict == bool(known), (self.term, names)


def check_ranges(seed: int) -> None:
    rng = random.Random(seed)
    wraps = rng.random() < 0.4
    parameters = [] if wraps else list(PARAMETERS[: rng.choice([0, 0, 1, 2])])
    body = random_body(rng, parameters, rng.randint(1, 3), wraps=wraps)
    scopes, everything = _scopes(body, Ranges()), with_inner_loops(Ranges(), body)
    said = dict[str, list[_Known]]()
    for _ in range(3 if parameters else 1):
        try:
            for stmt, names in states(body, {p: rng.randint(-12, 12) for p in parameters}, wraps=wraps):
                match stmt:
                    case Let(name, term):
                        if name not in said:
                            said[name] = [_Known(term, ranges, wraps=wraps) for ranges in (scopes[name], everything)]
                        for known in said[name]:
                            known.check(names[name], names)
                    case Loop(iterator=name, trip=trip):
                        count = max(value(trip, names, wraps=wraps), 0)
                        low, high = trip_range(scopes[name], trip)
                        assert low <= count and (high is None or count <= high), (trip, names)
        except (Wrapped, TooMany):
            pass


@settings(max_examples=100_000 if NIGHTLY else 150)
@given(seed=SEEDS)
def test_ranges_hold_all_values(seed: int) -> None:
    check_ranges(seed)
