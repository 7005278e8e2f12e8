"""`isa check` finds what is legal and yet wrong, with its place and a remedy; the machines that there are have none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from dspgen.errors import IsaError, Problem
from dspgen.target.load import check_target, isa_names, isa_path, load_target
from tests.support.random_isa import Variation, machine

Run = Callable[..., tuple[int, str, str]]
FOLDER = Path(__file__).parents[1] / "isa"
QUAD = (FOLDER / "quad.toml").read_text(encoding="utf-8")
MACHINES = [*(str(isa_path(name)) for name in isa_names()), *map(str, sorted(FOLDER.glob("*.toml")))]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda p: Path(p).stem)
def test_what_there_is_has_neither_errors_nor_warnings(machine: str) -> None:
    assert check_target(machine)[1] == []


@dataclass(frozen=True)
class Case:
    """The machine `quad` without some rows and with some texts replaced."""

    name: str
    code: str
    severity: str
    key: str
    says: str
    without: str = ""
    edits: tuple[tuple[str, str], ...] = ()
    helps: str = ""

    def text(self) -> str:
        found = QUAD
        for row in self.without.split():
            found, count = re.subn(rf"\[instructions\.{row}\]\n(?:[^\n]+\n)*\n*", "", found)
            assert count == 1, row
        for old, new in self.edits:
            assert old in found, old
            found = found.replace(old, new, 1)
        return found


def added(table: str) -> tuple[tuple[str, str], ...]:
    return (("[instructions.QADD]", f"{table}\n\n[instructions.QADD]"),)


SECOND = '[registers.W]\nkind = "vector"\nnames = "w{0..7}"\nbits = 32'
ODD = 'label = "assumed"\nsource = "made up"'
RESERVED = 'reserved = ["p7"]'
CASES = [
    Case("nothing writes", "DG120", "error", "instructions.ODD.operands.a", "class `W`, which no instruction writes",
         edits=added(f'{SECOND}\n\n[instructions.ODD]\nunits = "VALU"\noperands = {{ a = "W", d = "V" }}\n'
                     f'semantics = "d = neg.f32(a)"\n{ODD}')),
    Case("units of the other side", "DG120", "warning", "instructions.VQADD.units",
         "names vector registers alone, but its units are on the scalar side",
         edits=(('[instructions.VQADD]\nunits = "VALU"', '[instructions.VQADD]\nunits = "ALU"'),)),
    Case("units of both sides", "DG120", "warning", "instructions.QADD.units", "are those of the scalar side on all",
         edits=(('[instructions.QADD]\nunits = "ALU"', '[instructions.QADD]\nunits = ["ALU", "VALU"]'),)),
    Case("addresses of the other side", "DG120", "error", "address_modes.scalar.base", "`A` is of the vector side",
         edits=(('kind = "address"\n', 'kind = "address"\nside = "vector"\n'),)),
    Case("operands out of memory's reach", "DG121", "error", "instructions.ODD",
         "can't come from memory: nothing leads from a load to class `W`",
         edits=added(f'{SECOND}\n\n[instructions.ODD]\nunits = "VALU"\noperands = {{ a = "W", b = "W", d = "V" }}\n'
                     f'semantics = "d = add.f32(a, b)"\n{ODD}\n\n[instructions.FILL]\nunits = "VALU"\n'
                     f'operands = {{ x = {{ imm = [0, 1] }}, d = "W" }}\nsemantics = "d = x"\n{ODD}'),
         helps="d = vld.i32(m, 1, 0)"),
    Case("no loads of a type", "DG121", "warning", "instructions.VQADD", "no instruction loads f32 in class `V`",
         without="VQLD"),
    Case("results out of memory's reach", "DG122", "error", "instructions.QADD", "nothing leads to a store",
         without="QST VQST", helps="st.i32(m, a)"),
    Case("no stores of a type", "DG122", "warning", "instructions.VQADD", "no instruction stores f32 in class `V`",
         without="VQST"),
    Case("no address", "DG123", "error", "address_modes.vector.base", "from a pointer, of class `S`", without="QTOA",
         helps="d = addr(a)"),
    Case("no steps", "DG123", "error", "address_modes.scalar.base", "adds to an address of `A`",
         without="QADDA QADDAR"),
    Case("short steps", "DG123", "warning", "address_modes.scalar.base", "only small immediates", without="QADDAR"),
    Case("no free registers", "DG133", "error", "registers.A", "leaves none of its registers free",
         edits=((RESERVED, 'reserved = "p{0..7}"'),), helps="add registers, or shorten `reserved`"),
    Case("no offsets", "DG123", "warning", "address_modes.scalar.offset", "nothing writes offsets of class `F`",
         edits=(('d = "AF" }\nsemantics = "d = addr(a)"', 'd = "A" }\nsemantics = "d = addr(a)"'),
                ('b = "AF", d = "AF"', 'b = "A", d = "A"'), ('b = "AF", d = "AF"', 'b = "A", d = "A"'),
                ('a = "AF", d = "AF"', 'a = "A", d = "A"'))),
    Case("no arrays of its own", "DG123", "warning", "registers.A", "functions can't have arrays", without="QFROMA"),
    Case("no constants", "DG124", "error", "abi.scalar_class", "puts 0 into a register of class `S`",
         without="QSET", helps="sext(x, 16)"),
    Case("tiny constants", "DG124", "warning", "abi.scalar_class", "put 100 into a register", without="QSETH",
         edits=(("imm = [-32768, 65535]", "imm = [-8, 7]"),)),
    Case("short constants", "DG124", "warning", "abi.scalar_class", "all 32 bits", without="QSETH",
         helps="set_high(d, x)"),
    Case("nothing fills vectors", "DG125", "error", "registers.V", "neither from memory nor from scalars",
         without="VQLD VQALL"),
    Case("no broadcast", "DG125", "warning", "registers.V", "no instruction brings scalars to vectors",
         without="VQALL", helps="d = bcast.i32(a)"),
    Case("an interval without effect", "DG126", "warning", "packets.minimum_ii", "makes it 3 at least",
         edits=(("minimum_ii = 3", "minimum_ii = 2"),)),
    Case("done before the unit", "DG126", "warning", "instructions.QMUL", "its unit works on it for 9",
         edits=(("mul.i32(a, b)\"\n", "mul.i32(a, b)\"\nbusy = 9\n"),)),
    Case("held too long", "DG126", "warning", "instructions.QADD", "until cycle 7, though all is done after 1",
         edits=(("add.i32(a, b)\"\n", 'add.i32(a, b)"\nresources = [{ name = "port", first = 6 }]\n'),)),
    Case("no loops", "DG127", "error", "instructions", "no instruction branches to a label", without="QJMP"),
    Case("no return", "DG127", "error", "abi.return_operand", "functions can't return", without="QRET"),
    Case("no predicates", "DG127", "error", "predicates", "loops can't end",
         edits=(('scalar = "r{0..2}"\n', ""),)),
    Case("predicates that are kept", "DG127", "error", "predicates", "loops can't end",
         edits=((RESERVED, 'reserved = ["p7", "r{0..2}"]'),)),
    Case("no branch under a predicate", "DG127", "error", "instructions.QJMP", "takes a predicate",
         edits=(('semantics = "branch(t)"\n', 'semantics = "branch(t)"\npredicate = "none"\n'),)),
    Case("lane predicates elsewhere", "DG127", "error", "predicates.lane", "are vector registers",
         edits=(('scalar = "r{0..2}"\n', 'scalar = "r{0..2}"\nlane = "r3"\n'),)),
    Case("no sums", "DG128", "error", "abi.scalar_class", "`add.i32` in class `S`: loops can't count", without="QADD"),
    Case("no products", "DG128", "warning", "abi.scalar_class", "`mul.i32`", without="QMUL"),
    Case("no comparisons", "DG128", "warning", "abi.scalar_class", "`lt.i32`", without="QLT"),
    Case("no shifts", "DG128", "warning", "abi.scalar_class", "`shl.i32`", without="QSHL"),
    Case("no place for arrays", "DG129", "error", "memories", "arrays have no place",
         edits=(('sides = ["scalar", "vector"]', 'sides = ["scalar"]'), ('sides = ["scalar", "vector"]',
                 'sides = ["vector"]'))),
    Case("a memory out of reach", "DG129", "warning", "memories.FAR", "no load or store of the vector side reaches it",
         without="VQLD VQST", edits=(('16\nsides = ["scalar", "vector"]', '16\nsides = ["vector"]'),)),
    Case("stacks out of reach", "DG129", "error", "memories.LOCAL", "no load or store of the vector side reaches it",
         without="VQLD VQST", edits=(('sides = ["scalar", "vector"]', 'sides = ["vector"]'),)),
    Case("accesses to nothing", "DG129", "error", "instructions.VQLD.units", "which no memory has among its `sides`",
         edits=(('sides = ["scalar", "vector"]', 'sides = ["scalar"]'), ('sides = ["scalar", "vector"]',
                 'sides = ["scalar"]'))),
    Case("short addresses", "DG129", "error", "memories.FAR", "beyond the 24 bits of `A`",
         edits=(('names = "p{0..7}"\nbits = 32', 'names = "p{0..7}"\nbits = 24'),)),
    Case("patterns in no memory", "DG129", "warning", "pattern_memory.base", "0x10 is in no memory",
         edits=added('[registers.C]\nkind = "control"\nnames = "mode"\nbits = 32\n\n'
                     '[pattern_memory]\nbase = 16\nbytes_per_mode = 4\nmode_register = "mode"')),
    Case("no copies", "DG130", "warning", "registers.S", "copies one register of the class to another",
         without="QMOV"),
    Case("a unit without work", "DG131", "warning", "units.IDLE", "no instruction runs on it",
         edits=added('[units.IDLE]\ncount = 1\nside = "vector"')),
    Case("an argument elsewhere", "DG132", "error", "abi.arguments", "`p1` is not of `scalar_class`",
         edits=(('arguments = ["r4"', 'arguments = ["p1"'),)),
    Case("an argument in a high half", "DG132", "error", "abi.arguments", "`r7` is the high half of a pair",
         edits=(*added('[registers.SP]\nkind = "scalar"\npair_of = "S"\nbits = 64'),
                ('wide_class = "S"', 'wide_class = "SP"'), ('arguments = ["r4"', 'arguments = ["r7"'))),
    Case("a stack elsewhere", "DG132", "error", "abi.scalar_stack", "`r9` is no base of the scalar side's accesses",
         edits=(('scalar_stack = "p7"', 'scalar_stack = "r9"'),)),
    Case("short scalars", "DG132", "error", "abi.scalar_class", "has 16 bits, not 32",
         edits=(("bits = 32", "bits = 16"),)),
]  # fmt: skip


def checked(text: str, folder: Path) -> list[Problem]:
    path = folder / "machine.toml"
    path.write_text(text, encoding="utf-8")
    load_target(str(path))  # it is legal
    try:
        return check_target(str(path))[1]
    except IsaError as error:
        return list(error.problems)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_it_is_found(case: Case, tmp_path: Path) -> None:
    text = case.text()
    told = [p for p in checked(text, tmp_path) if p.code == case.code and p.message.startswith(f"`{case.key}`: ")]
    (problem,) = [p for p in told if case.says in p.message]
    assert problem.severity == case.severity
    assert case.helps in problem.remedy
    assert problem.loc is not None
    line = text.splitlines()[problem.loc.line - 1]
    assert case.key.split(".")[-1] in line or case.key.split(".")[1] in line


def test_an_access_may_be_of_the_other_side(tmp_path: Path) -> None:
    """Loads of scalars on a unit of the vector side: its own `side` says that this is meant."""
    unit = ('[instructions.QLD]\nunits = "MEM"', '[instructions.QLD]\nunits = "VALU"')
    silent = Case("", "", "", "", "", edits=(unit, ("align = 4 }", 'align = 4, side = "scalar" }')))
    warned = [p.message for p in checked(Case("", "", "", "", "", edits=(unit,)).text(), tmp_path)]
    assert any("`instructions.QLD.units`: it names scalar registers alone" in message for message in warned)
    assert not any("`instructions.QLD.units`" in p.message for p in checked(silent.text(), tmp_path))


def test_every_rule_has_a_case() -> None:
    text = (Path(__file__).parents[2] / "dspgen" / "target" / "build" / "usability.py").read_text(encoding="utf-8")
    codes = set(re.findall(r'"(DG\d{3})"', text))
    assert codes == {case.code for case in CASES}


def test_warnings_are_told_and_do_no_harm(dspgen: Run, tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(next(c for c in CASES if c.name == "no copies").text(), encoding="utf-8")
    status, out, err = dspgen("isa", "check", str(path))
    assert status == 0 and "is sound" in out
    assert f"{path}:7:2: warning[DG130]: " in err and "[registers.S]" in err and "help: " in err
    found = json.loads(dspgen("isa", "check", str(path), "--json")[1])
    assert found["sound"] is True and found["isa"] == "quad"
    (problem,) = found["problems"]
    assert (problem["severity"], problem["code"], problem["line"]) == ("warning", "DG130", 7)


def test_errors_are_told_as_an_object_too(dspgen: Run, tmp_path: Path) -> None:
    path = tmp_path / "machine.toml"
    path.write_text(next(c for c in CASES if c.name == "no loops").text(), encoding="utf-8")
    status, out, err = dspgen("isa", "check", str(path))
    assert (status, out) == (2, "") and "error[DG127]" in err
    status, out, err = dspgen("isa", "check", str(path), "--json")
    assert status == 2 and err == ""
    found = json.loads(out)
    assert found["sound"] is False and [p["code"] for p in found["problems"]] == ["DG127"]
    path.write_text(QUAD.replace("[packets]", "[packet]"), encoding="utf-8")
    status, out, _ = dspgen("isa", "check", str(path), "--json")
    assert status == 2 and {p["code"] for p in json.loads(out)["problems"]} == {"DG102", "DG103"}


def test_stores_that_nothing_can_wait_for_are_refused() -> None:
    figures = (("instructions.VMEM_ST.memory.store_latency", 2),)
    _, problems = machine(Variation("hexagon_v66", figures))
    errors = [p for p in problems if p.severity == "error"]
    assert [p.code for p in errors] == ["DG126"] and "nothing can wait" in errors[0].message
