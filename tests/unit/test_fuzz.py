"""The campaign on random programs: how it classifies a run, how it makes a finding smaller, how it tells both."""

from __future__ import annotations

import faulthandler
import os
import random
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import fuzz
from tests.generators.program_files import Source
from tests.generators.program_tree import Bin, walk_tree
from tests.generators.programs import random_source
from tests.support import fuzz_cases
from tests.support.fuzz_cases import CPU, Case, Verdict, judged
from tests.support.program_reducer import reduced

LOOP = """void kernel(float y[20], const float x[20])
{
  for (int i = 0; i < 17; i++)
    y[i] = x[i] + 1.0f;
}
"""
INFINITE = LOOP.replace("+ 1.0f", "/ 0.0f")
Run = Callable[..., Any]


def _results(**known: Any) -> Run:
    fields = {"verified": False, "wrong": {}, "ill_conditioned": {}, "details": ("y differs",), **known}
    return lambda *args, **options: SimpleNamespace(**fields)


def _fails(*args: Any, **options: Any) -> None:
    raise AssertionError("planted")


def _ends(*args: Any, **options: Any) -> None:
    faulthandler.disable()  # of pytest, which would print
    os.kill(os.getpid(), signal.SIGSEGV)


def _hangs(*args: Any, **options: Any) -> None:
    while True:
        pass


def _verdict(monkeypatch: pytest.MonkeyPatch, run: Run, text: str = LOOP, fp: str = "reassoc") -> Verdict:
    monkeypatch.setattr(fuzz_cases, "run_cpu", run)
    return judged(text, Case(CPU, fp=fp), 1)


def test_right_and_refused_programs_are_told_apart() -> None:
    assert judged(LOOP, Case(CPU)).kind == "right"
    refused = judged(LOOP.replace("x[i]", "unknown(i)"), Case(CPU))
    assert refused.kind == "refused" and refused.code.startswith("DG") and not refused.is_finding


@pytest.mark.parametrize(
    "run, kind, code",
    [
        (_results(wrong={"y": 1}), "wrong", ""),
        (_results(ill_conditioned={"y": 1}), "ill-conditioned", ""),
        (_results(wrong={"y": 1}, ill_conditioned={"y": 1}), "wrong", ""),
        (_fails, "fault", "AssertionError"),
        (_ends, "fault", "signal 11"),
        (_hangs, "slow", ""),
    ],
)
def test_a_failure_is_told_by_its_kind(monkeypatch: pytest.MonkeyPatch, run: Run, kind: str, code: str) -> None:
    verdict = _verdict(monkeypatch, run)
    assert (verdict.kind, verdict.code) == (kind, code)
    assert verdict.is_finding == (kind != "ill-conditioned")


def test_infinities_are_wrong_only_in_strict_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = _results(wrong={"y": 1})
    assert _verdict(monkeypatch, wrong, INFINITE).kind == "ill-conditioned"
    assert _verdict(monkeypatch, wrong, INFINITE, "strict").kind == "wrong"


# Reduction


def _has(op: str, one: Source) -> bool:
    return any(isinstance(n, Bin) and n.op == op for n in walk_tree(one.program.body))


@pytest.mark.parametrize("op", ["%", ">>", "&&"])
def test_a_planted_fault_is_reduced(op: str) -> None:
    drawn = (random_source(random.Random(f"reduce {op} {k}")) for k in range(300))
    start = next(one for one in drawn if one.text.count("\n") > 15 and _has(op, one))
    found = reduced(start, lambda one: _has(op, one), 60.0)
    assert _has(op, found)
    assert found.text.count("\n") <= 10, found.text


def test_a_campaign_keeps_and_reduces_its_findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def planted(text: str, case: Case) -> Verdict:
        return Verdict("wrong", message="planted") if "-=" in text or " - " in text else Verdict("right")

    monkeypatch.setattr(fuzz, "verdict_on", planted)
    monkeypatch.setattr(fuzz, "judged", lambda text, case, seconds: planted(text, case))
    told: list[str] = []
    campaign = fuzz.Campaign("planted", tmp_path, 2, [CPU], told.append)
    campaign.run(60.0, 4)
    summary = campaign.summary(1.0)
    assert summary["runs"] == 4 and set(summary["counts"]) == {"right", "wrong"}
    first = summary["findings"][0]
    assert first["lines"] <= 10 and first["command"].endswith(f"reduced.c --backend cpu --threads 1{_fp(campaign)}")
    assert all((f.folder / "kernel.c").read_text() == f.run.source.text for f in campaign.findings)
    assert (campaign.findings[0].folder / "reduced.txt").read_text().startswith(first["command"])
    assert "planted" in fuzz.table(summary) and any("reduced to" in line for line in told)


def _fp(campaign: fuzz.Campaign) -> str:
    return " --fp strict" if campaign.findings[0].run.case.fp == "strict" else ""
