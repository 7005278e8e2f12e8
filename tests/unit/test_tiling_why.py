"""What users are told of each loop: lanes, or the reason why not, with a pair of iterations."""

from __future__ import annotations

from pathlib import Path

import pytest

from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.pipeline import compile_file
from dspgen.target.model import Target
from dspgen.tiling.candidates import Candidate
from dspgen.tiling.nests import nests
from dspgen.tiling.search import Choice, Trial
from dspgen.tiling.why import Verdict, explain_lanes, one_for_each
from plant_core.dependence import memory_dependences
from plant_core.loc import Loc
from plant_core.tiles import CompPlan, LoopShape


def verdicts(text: str, folder: Path, target: Target, *, fp: str = "reassoc") -> list[tuple[str, str]]:
    path = folder / "f.c"
    path.write_text(text, encoding="utf-8")
    remarks = compile_file(str(path), target, Options(fp="strict" if fp == "strict" else "reassoc")).remarks
    return [(r.kind, r.message) for r in remarks if r.kind in ("vectorized", "not-vectorized")]


def scalar_verdict(body: str, folder: Path, target: Target, *, reassoc: bool = True) -> str:
    """The reason that is told of the only loop where nothing is across lanes."""
    path = folder / "f.c"
    path.write_text(f"void f(float a[64], float b[64], int p[64]) {{ {body} }}", encoding="utf-8")
    func = read_c(str(path))
    (nest,) = nests(func)
    plain = Candidate(tuple((n, CompPlan(func.comp(n).iters)) for n in nest.names), 1.0, "plain")
    choice = Choice(nest.names, plain, (Trial("plain", 1.0, 100.0),))
    (found,) = explain_lanes(nest, choice, memory_dependences(func), target, reassoc=reassoc)
    assert found.kind == "not-vectorized"
    return found.message


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "for (int i = 1; i < 64; i++) a[i] = a[i - 1] * a[i - 1] + b[i];",
            "iteration 2 reads a[1], which iteration 1 writes",
        ),
        ("for (int i = 0; i < 64; i++) a[p[i]] += b[i];", "reads an element of a, which iteration 0 may write"),
        ("for (int i = 0; i < 64; i++) b[0] = a[i];", "all iterations write one element of b"),
        ("for (int i = 0; i < 64; i++) a[p[i]] = a[i] + b[i];", "reads a[1], which iteration 0 may write"),
        (
            "for (int i = 1; i < 64; i++) { a[i] = b[i - 1]; b[i] = a[i] + 1.0f; }",
            "iteration 2 reads b[1], which iteration 1 writes",
        ),
    ],
)
def test_dependences_are_told_by_a_pair(body: str, reason: str, tmp_path: Path, ft_m7002: Target) -> None:
    message = scalar_verdict(body, tmp_path, ft_m7002)
    assert message.startswith("not across i: ") and message.endswith(reason)


def test_strict_sums_keep_their_order(tmp_path: Path, ft_m7002: Target) -> None:
    body = "for (int i = 0; i < 64; i++) b[0] += a[i];"
    assert "--fp strict" in scalar_verdict(body, tmp_path, ft_m7002, reassoc=False)


def test_lanes_are_told_with_what_is_special(tmp_path: Path, ft_m7002: Target) -> None:
    text = "void f(const float a[128], float b[64]) { for (int i = 0; i < 64; i++) b[i] = a[2 * i] * 3.0f; }"
    ((kind, message),) = verdicts(text, tmp_path, ft_m7002)
    assert kind == "vectorized" and message.startswith("across i: 16 lanes, reads a in steps of 2")


def test_one_verdict_for_each_loop_of_the_text() -> None:
    here, there = Loc("f.c", 3, 1), Loc("f.c", 9, 1)
    found = [
        Verdict(here, "not-vectorized", "the loop has one iteration"),
        Verdict(here, "vectorized", "across i: 16 lanes"),
        Verdict(there, "vectorized", "across i: 16 lanes"),
        Verdict(there, "not-vectorized", "not across i: why"),
    ]
    both = Verdict(there, "vectorized", "in part: across i: 16 lanes; the rest: not across i: why")
    assert one_for_each(found) == (found[1], both)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "int k = 0; while (k < 64 && a[k] > 0) k++; r[0] = k;",
            "iteration 1 needs to know whether the loop goes on, which iteration 0 decides",
        ),
        (
            "for (int i = 0; i < 64; i++) { if (a[i] < 0) return; r[i] += a[i] > 1; }",
            "iteration 1 needs to know whether the loop goes on, which iteration 0 decides",
        ),
    ],
    ids=["while", "return"],
)
def test_variables_that_the_text_does_not_have_are_told_in_words(
    body: str, reason: str, tmp_path: Path, ft_m7002: Target
) -> None:
    found = verdicts(f"void f(const float a[64], int r[64]) {{ {body} }}", tmp_path, ft_m7002)
    assert any(kind == "not-vectorized" and message.endswith(reason) for kind, message in found), found
    assert not any("going" in message or "done" in message for _, message in found)


def test_two_loops_across_lanes(tmp_path: Path, ft_m7002: Target) -> None:
    path = tmp_path / "f.c"
    path.write_text(
        "void f(float a[64]) { for (int i = 0; i < 16; i++) for (int j = 0; j < 4; j++) a[4 * i + j] *= 2.0f; }",
        encoding="utf-8",
    )
    func = read_c(str(path))
    (nest,) = nests(func)
    shape = (("i", LoopShape(4, lane=True)), ("j", LoopShape(4, inner=True)))
    candidate = Candidate((("S0", CompPlan(("i", "j"), (shape,))),), 1.0, "two")
    choice = Choice(("S0",), candidate, (Trial("two", 1.0, 10.0, "", ("S0",)), Trial("plain", 1.0, 35.0)))
    (found,) = explain_lanes(nest, choice, memory_dependences(func), ft_m7002, reassoc=True)
    assert found.message == "across i and j: 16 lanes; 3.5 times as fast as scalar code"
