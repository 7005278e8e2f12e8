"""One run of the compiler on a random program: what is asked of it, and how it came out."""

from __future__ import annotations

import random
import tempfile
import time
import traceback
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dspgen import oracle
from dspgen.driver.cpu import run_cpu
from dspgen.driver.pipeline import run_file
from dspgen.errors import DspgenError, OutOfBounds, problems_of
from dspgen.frontend.read import read_c
from dspgen.options import Options
from dspgen.target.load import load_target
from dspgen.target.query.instructions import is_unknown
from plant_core.support.fork_join import limit_processes
from plant_core.support.location import PlantError
from tests.generators.program_expressions import Features
from tests.generators.program_files import Source
from tests.generators.programs import FAMILIES, random_source
from tests.support.isolated import isolated

ROOT = Path(__file__).parent.parent.parent
CPU = "cpu"
SECONDS = 120.0
ILL = "ill-conditioned"
_DTYPES = {
    "float": "f32", "double": "f64", "signed char": "i8", "unsigned char": "u8", "short": "i16",
    "unsigned short": "u16", "int": "i32", "unsigned int": "u32", "long": "i64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """`isa` is a name, a path, or CPU."""

    isa: str
    data: str = "onchip"
    fp: str = "reassoc"

    def arguments(self) -> str:
        """Those of `dspgen run FILE.c`."""
        strict = " --fp strict" if self.fp == "strict" else ""
        if self.isa == CPU:
            return f"--backend cpu --threads 1{strict}"
        return f"--isa {self.isa} --data {self.data}{strict}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`kind`: right, wrong, fault, refused, slow (stopped at its limit), or ill-conditioned (rounding or infinities
    leave too few digits to compare). `code`: of the refusal, or the place of the fault."""

    kind: str
    code: str = ""
    message: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        """Failures with the same key are taken to be of one cause."""
        return self.kind, self.code

    @property
    def is_finding(self) -> bool:
        return self.kind in ("wrong", "fault", "slow")


def judged(text: str, case: Case, seconds: float = SECONDS) -> Verdict:
    """The verdict on the program, in a process of its own."""
    ended = isolated(lambda: verdict_on(text, case), seconds)
    return verdict_of(ended.result, ended.how, seconds)


def verdict_of(result: Verdict | None, how: str, seconds: float) -> Verdict:
    if result is not None:
        return result
    if how == "late":
        return Verdict("slow", message=f"not done in {seconds:.0f} s", seconds=seconds)
    return Verdict("fault", how, f"the process ended with {how}")


def verdict_on(text: str, case: Case) -> Verdict:
    """The verdict on the program, in this process, whatever happens."""
    limit_processes(1)
    started = time.process_time()
    with tempfile.TemporaryDirectory(prefix="dspgen-fuzz-") as folder:
        path = Path(folder) / "kernel.c"
        path.write_text(text, encoding="utf-8")
        try:
            made = _run(path, case, Path(folder))
        except (DspgenError, PlantError) as error:
            problem = problems_of(error)[0]
            made = Verdict(
                "wrong" if isinstance(error, OutOfBounds) else "refused",
                problem.code,
                problem.render().replace(folder + "/", ""),
            )
        except BaseException as error:  # a panic of an extension module is no Exception
            made = Verdict("fault", _place(error), traceback.format_exc().replace(folder + "/", ""))
    return replace(made, seconds=time.process_time() - started)


def _run(path: Path, case: Case, folder: Path) -> Verdict:
    options = Options(fp="strict" if case.fp == "strict" else "reassoc", data="ddr" if case.data == "ddr" else "onchip")
    if case.isa == CPU:
        result = run_cpu(str(path), options, cache=folder / "cache", repeats=1)
    else:
        result = run_file(str(path), load_target(case.isa), options)  # type: ignore[assignment]
    if result.verified:
        return Verdict("right")
    settled = case.fp == "strict" or not result.wrong.keys() <= _infinite(path, options)
    return Verdict("wrong" if result.wrong and settled else ILL, message="\n".join(result.details))


def _infinite(path: Path, options: Options) -> set[str]:
    """Return the arrays in which the C program leaves infinities or NaN: sums in another order may give the other."""
    func = read_c(str(path))
    values = oracle.random_inputs(func, 0, oracle.default_inputs(str(path), func))
    found = oracle.reference(str(path), func, values, fp=options.fp).single
    return {name for name, a in found.items() if a.dtype.kind == "f" and not np.isfinite(a).all()}


def _place(error: BaseException) -> str:
    """The kind of error and the innermost place of our own that it went through."""
    ours = [
        f for f in traceback.extract_tb(error.__traceback__) if str(ROOT) in f.filename and "tests" not in f.filename
    ]
    if not ours:
        return type(error).__name__
    return f"{type(error).__name__} {Path(ours[-1].filename).relative_to(ROOT)}:{ours[-1].name}"


def machines() -> tuple[list[str], list[str]]:
    """Those of `isa/`, and those that only tests have, as paths from the root."""
    own = sorted(p.stem for p in (ROOT / "isa").glob("*.toml"))
    return own, [f"tests/isa/{p.name}" for p in sorted((ROOT / "tests" / "isa").glob("*.toml"))]


def resolved(case: Case) -> Case:
    """With the machine's path from anywhere."""
    return replace(case, isa=str(ROOT / case.isa)) if case.isa.endswith(".toml") else case


def families_of(isa: str) -> list[tuple[str, ...]]:
    """Those of whose types the machine has arrays."""
    if isa == CPU:
        return list(FAMILIES)
    target = load_target(isa)
    known = {name for name, dtype in _DTYPES.items() if not is_unknown(dtype, target)}  # type: ignore[arg-type]
    return [f for f in FAMILIES if known.issuperset(f)] or [FAMILIES[0]]


def random_case(seed: str, isas: list[str] | None = None) -> tuple[Case, Source]:
    """What is run for this seed."""
    rng = random.Random(seed)
    own, others = machines()
    isa = (
        rng.choice(isas)
        if isas
        else rng.choices([*own, CPU, *others], [4.0] * len(own) + [3.0] + [1.0] * len(others))[0]
    )
    fp = "strict" if rng.random() < 0.25 else "reassoc"
    data = "onchip"
    if isa != CPU and load_target(resolved(Case(isa)).isa).dma is not None and rng.random() < 0.5:
        data = "ddr"
    case = Case(isa, data, fp)
    families = families_of(resolved(case).isa) if rng.random() < 0.95 else list(FAMILIES)
    features = Features(rng.choice(families), strict=fp == "strict", wild=rng.random() < 0.15)
    return case, random_source(rng, features)
