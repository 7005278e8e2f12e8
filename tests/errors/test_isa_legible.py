"""`isa check` prints each row of a machine, reads it back and readies it for the simulator: what can't be read or run
is told with the row and a remedy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from dspgen.errors import IsaError, Problem
from dspgen.sim.supported_rows import unrunnable
from dspgen.sim.text.round_trip import illegible
from dspgen.target.load import check_target, isa_path, load_target
from tests.errors.test_isa_sense import MACHINES, QUAD

TEMPLATES = isa_path("hexagon_v66").read_text(encoding="utf-8")
SUB = 'text = "{d} = sub({a},{b})"'


@pytest.mark.parametrize("machine", MACHINES, ids=lambda p: Path(p).stem)
def test_what_there_is_is_read_back_and_runs(machine: str) -> None:
    target = load_target(machine)
    assert (illegible(target), unrunnable(target)) == ([], [])


@dataclass(frozen=True)
class Case:
    """A machine with one text replaced."""

    name: str
    code: str
    key: str
    says: str
    old: str
    new: str
    base: str = TEMPLATES
    helps: str = ""

    def problem(self, folder: Path) -> Problem:
        path = folder / "machine.toml"
        assert self.old in self.base
        path.write_text(self.base.replace(self.old, self.new, 1), encoding="utf-8")
        load_target(str(path))  # it is legal
        with pytest.raises(IsaError) as caught:
            check_target(str(path), (), (illegible, unrunnable))
        (problem,) = [p for p in caught.value.problems if p.code in ("DG134", "DG135", "DG193")]
        return problem


MUL = '"d = mul.i32(a, b)"'
CASES = [
    Case("a separator", "DG134", "text.separator", "`,` stands in `{ r0 = add(r1,r2) }` too, the text of `S_ADD`",
         'separator = ";"', 'separator = ","', helps="choose a mark that stands in no instruction's text"),
    Case("a comment", "DG134", "text.comment", "`//` stands in `{ r0 = r1 // r2 }` too, the text of `S_SUB`: it",
         SUB, 'text = "{d} = {a} // {b}"'),
    Case("a sign that is the number's", "DG134", "instructions.S_SUB_I", "its pieces are `_=___`, as in no row's text",
         'text = "{d} = sub(#{a},{b})"', 'text = "{d} = 7-{a}{b}"', helps="docs/isa.md"),
    Case("a number between names", "DG134", "instructions.S_SUB", "is not read back", SUB, 'text = "{d} = sub{a}{b}"'),
    Case("another's text", "DG135", "instructions.S_ADD", "is the text of `S_SUB` too, which does something else",
         SUB, 'text = "{d} = add({a},{b})"', helps="write one of them in another way"),
    Case("packets that nothing shows", "DG134", "text.parallel", "nothing shows which instructions are one packet",
         'parallel = "||"', 'parallel = ""', QUAD),
    Case("no form", "DG193", "instructions.QMUL.semantics", "the simulator can't do `ld_pair`",
         MUL, '"d = add.i32(ld_pair.i32(a), b)"', QUAD, helps="d.lo = ld.i32(m)"),
    Case("a vector into a scalar", "DG193", "instructions.QMUL.semantics",
         "a vector of 4 lanes of 32 bits goes into 32 bits", MUL, '"d = bcast.i32(add.i32(a, b))"', QUAD),
    Case("lanes of a scalar", "DG193", "instructions.QMUL.semantics", "`even` is of a vector's lanes",
         MUL, '"d = even.i32(a, b)"', QUAD),
    Case("a vector for a scalar", "DG193", "instructions.VMINUB.semantics", "the last argument of `rotate` is a scalar",
         '"d = select.i8(ltu.i8(a, b), a, b)"', '"d = rotate.i8(a, b)"'),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_it_is_found(case: Case, tmp_path: Path) -> None:
    problem = case.problem(tmp_path)
    assert (problem.code, problem.severity) == (case.code, "error")
    assert problem.message.startswith(f"`{case.key}`: ") and case.says in problem.message
    assert case.helps in problem.remedy
    assert problem.loc is not None


def test_every_code_has_a_case() -> None:
    folder = Path(__file__).parents[2] / "dspgen" / "sim"
    texts = [(folder / f"{name}.py").read_text(encoding="utf-8") for name in ("text/round_trip", "supported_rows")]
    assert set(re.findall(r'"(DG\d{3})"', "".join(texts))) == {case.code for case in CASES}
