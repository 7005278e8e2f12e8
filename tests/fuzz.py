"""Run random programs on all machines until the time is over, and keep what fails, made smaller: docs/dev/fuzzing.md.

python -m tests.fuzz --minutes 10 --jobs 2 --seed 2026-11-28
"""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import shlex
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dspgen.oracle.run import _guard
from plant_core.support.fork_join import limit_processes
from tests.generators.program_files import Source
from tests.support.fuzz_cases import (
    CPU,
    ILL,
    ROOT,
    SECONDS,
    Case,
    Verdict,
    judged,
    random_case,
    resolved,
    verdict_of,
    verdict_on,
)
from tests.support.isolated import Child, Ended, wait
from tests.support.program_reducer import reduced

REDUCE_SECONDS = 400.0
_ALIKE = 2  # of findings with one key, so many are made smaller for each machine
_TELL = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Run:
    """A seed's case and program; the same for the same text of `seed`."""

    seed: str
    case: Case
    source: Source


@dataclass(slots=True)
class Finding:
    run: Run
    verdict: Verdict
    folder: Path
    lines: int

    def write(self, source: Source, name: str) -> Path:
        path = self.folder / name
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(source.text, encoding="utf-8")
        return path

    def record(self) -> dict[str, Any]:
        smaller = self.folder / "reduced.c"
        shown = smaller if smaller.exists() else self.folder / "kernel.c"
        return {
            "seed": self.run.seed,
            "kind": self.verdict.kind,
            "code": self.verdict.code,
            "message": self.verdict.message,
            "command": command(shown, self.run.case),
            "lines": self.lines,
        }


def command(path: Path, case: Case) -> str:
    """What repeats it, from the root of the project."""
    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
    return f"python -m dspgen run {shlex.quote(str(shown))} {case.arguments()}"


@dataclass(slots=True)
class Campaign:
    """Runs beside each other, each in a process of its own; findings are made smaller as they come."""

    seed: str
    folder: Path
    jobs: int
    isas: list[str]
    tell: Callable[[str], None]
    seconds: float = SECONDS
    counts: Counter[str] = field(default_factory=Counter)
    machines: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    refusals: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    samples: dict[tuple[str, str], str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    reductions: list[Finding] = field(default_factory=list)
    alike: Counter[tuple[str, ...]] = field(default_factory=Counter)
    next: int = 0
    times: list[float] = field(default_factory=list)

    def run(self, seconds: float, most: int | None = None) -> None:
        """For so many seconds, or so many programs; then what is under way is brought to its end."""
        started = told = time.monotonic()
        children: list[Child] = []
        work: dict[int, Callable[[Ended], None]] = {}
        while True:
            over = time.monotonic() - started > seconds or (most is not None and self.next >= most)
            while len(children) < self.jobs and (self.reductions or not over):
                child, done = self._reduction() if self.reductions else self._program()
                children.append(child)
                work[child.process] = done
            if not children:
                break
            for child, ended in wait(children, 5.0):
                work.pop(child.process)(ended)
            if time.monotonic() - told > _TELL:
                told = time.monotonic()
                self.tell(self.line(told - started))

    def line(self, seconds: float) -> str:
        total = sum(self.counts.values())
        shares = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        return f"{seconds / 60:5.1f} min  {total} runs ({3600 * total / max(seconds, 1):.0f} an hour): {shares}"

    def _program(self) -> tuple[Child, Callable[[Ended], None]]:
        seed = f"{self.seed}/{self.next}"
        self.next += 1
        case, source = random_case(seed, self.isas)
        run = Run(seed, case, source)
        asked = resolved(case)
        return Child.start(lambda: verdict_on(source.text, asked), self.seconds), lambda ended: self._judge(run, ended)

    def _judge(self, run: Run, ended: Ended) -> None:
        verdict = verdict_of(ended.result, ended.how, self.seconds)
        self.counts[verdict.kind] += 1
        self.times.append(verdict.seconds)
        self.machines[run.case.isa][verdict.kind] += 1
        if verdict.kind == "refused":
            self.refusals[verdict.code][verdict.message.split("\n")[0].split("]: ", 1)[-1]] += 1
            self.samples.setdefault(("refused", verdict.code), f"{verdict.message}\n(seed {run.seed}, {run.case.isa})")
        if not verdict.is_finding:
            return
        number = len(self.findings)
        folder = self.folder / f"{verdict.kind}-{number:03d}-{Path(run.case.isa).stem}"
        finding = Finding(run, verdict, folder, run.source.text.count("\n"))
        path = finding.write(run.source, "kernel.c")
        self._note(finding, path)
        self.findings.append(finding)
        self.tell(f"{verdict.kind} {verdict.code}: {command(path, run.case)}  (seed {run.seed})")
        alike = (*verdict.key, run.case.isa if verdict.kind == "wrong" else "")
        self.alike[alike] += 1
        if self.alike[alike] <= _ALIKE:
            self.reductions.append(finding)

    def _note(self, finding: Finding, path: Path) -> None:
        text = f"{command(path, finding.run.case)}\nseed {finding.run.seed}\n\n{finding.verdict.message}\n"
        (finding.folder / f"{path.stem}.txt").write_text(text, encoding="utf-8")

    def _reduction(self) -> tuple[Child, Callable[[Ended], None]]:
        finding = self.reductions.pop(0)
        case, key = resolved(finding.run.case), finding.verdict.key
        # A program that is slow is one that takes this long.
        limit = self.seconds if finding.verdict.kind != "slow" else self.seconds / 2

        def fails(source: Source) -> bool:
            verdict = judged(source.text, case, limit)
            if verdict.key == key:
                finding.write(source, "reduced.c")
                return True
            return False

        def work() -> str:
            return reduced(finding.run.source, fails, REDUCE_SECONDS).text

        return Child.start(work, REDUCE_SECONDS + 6 * self.seconds, 1), lambda ended: self._reduced(finding)

    def _reduced(self, finding: Finding) -> None:
        path = finding.folder / "reduced.c"
        if path.exists():
            finding.lines = path.read_text(encoding="utf-8").count("\n")
            self._note(finding, path)
        self.tell(f"reduced to {finding.lines} lines: {command(path, finding.run.case)}")

    def summary(self, seconds: float) -> dict[str, Any]:
        refused = {
            code: {
                "count": sum(found.values()),
                "messages": dict(found.most_common()),
                "sample": self.samples["refused", code],
            }
            for code, found in sorted(self.refusals.items())
        }
        return {
            "seed": self.seed,
            "seconds": seconds,
            "runs": sum(self.counts.values()),
            "median_seconds": sorted(self.times)[len(self.times) // 2] if self.times else None,
            "mean_seconds": sum(self.times) / len(self.times) if self.times else None,
            "counts": dict(sorted(self.counts.items())),
            "machines": {isa: dict(sorted(found.items())) for isa, found in sorted(self.machines.items())},
            "refused": refused,
            "findings": [f.record() for f in self.findings],
        }


def table(summary: dict[str, Any]) -> str:
    kinds = ("right", "refused", ILL, "wrong", "fault", "slow")
    lines = ["", f"{'machine':24}" + "".join(f"{kind:>17}" for kind in kinds)]
    rows = [*summary["machines"].items(), ("all", summary["counts"])]
    lines += [f"{isa:24}" + "".join(f"{found.get(kind, 0):>17}" for kind in kinds) for isa, found in rows]
    for code, found in sorted(summary["refused"].items(), key=lambda item: -item[1]["count"]):
        sample = found["sample"].replace("\n", "\n      ")
        lines.append(f"\n{found['count']:5} refused by {code}, such as\n      {sample}")
    for found in summary["findings"]:
        lines.append(f"\n{found['kind']} {found['code']} ({found['lines']} lines, seed {found['seed']})")
        lines.append(f"  {found['command']}\n  {(found['message'].strip().splitlines() or [''])[-1]}")
    return "\n".join(lines)


def _share() -> None:
    """Make once, before the first fork, everything that all runs use alike."""
    _guard()
    # Looking for garbage takes a tenth of a run's time, and copies the pages that it shares with this process.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 1_000_000)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--runs", type=int, help="so many programs at most")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", default=datetime.date.today().isoformat(), help="by default the date")
    parser.add_argument("--isa", action="append", default=[], metavar="NAME|PATH|cpu", help="only these machines")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="what takes longer is slow")
    parser.add_argument("--only", metavar="SEED/NUMBER", help="the program of this number: print it, and its verdict")
    parser.add_argument("--json", action="store_true", help="one object on stdout, and progress on stderr")
    given = parser.parse_args()
    limit_processes(1)
    if given.only:
        case, source = random_case(given.only, given.isa)
        verdict = judged(source.text, resolved(case), given.seconds)
        print(f"{source.text}\n{case.arguments()}\n{verdict.kind} {verdict.code}\n{verdict.message}")
        return int(verdict.is_finding)
    _share()

    def tell(line: str) -> None:
        print(line, file=sys.stderr if given.json else sys.stdout, flush=True)

    folder = ROOT / "build" / "fuzz" / f"{datetime.datetime.now():%Y%m%d-%H%M%S}-{given.seed}"
    campaign = Campaign(given.seed, folder, given.jobs, given.isa, tell, given.seconds)
    tell(f"seed {given.seed}, {given.jobs} jobs, findings in {folder.relative_to(ROOT)}")
    started = time.monotonic()
    campaign.run(60 * given.minutes, given.runs)
    summary = campaign.summary(time.monotonic() - started)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(summary, indent=2), encoding="utf-8")
    print(json.dumps(summary) if given.json else table(summary))
    return int(bool(campaign.findings))


if __name__ == "__main__":
    sys.exit(main())


__all__ = ["CPU", "Campaign", "Finding", "Run", "main", "table"]
