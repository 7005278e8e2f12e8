"""What is wrong with an ISA file is told with its code, its key, and its place."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from dspgen.errors import IsaError, Problem
from dspgen.target.load import isa_names, isa_path, load_target
from plant_core.support.location import Loc

TEXT = isa_path("ft_m7002").read_text()


@dataclass(frozen=True)
class Case:
    """`old` becomes `new` once; the problem then stands where `at` does in the new text, after `old`'s place."""

    name: str
    old: str
    new: str
    code: str
    key: str
    says: str
    at: str
    helps: str = ""


ROW = '[instructions.SNEG]\nunits = "SIEU"\noperands = { a = "R", d = "R" }\nsemantics = "d = neg.i32(a)"\n'
CASES = [
    Case("unknown key", "minimum_ii = 7", "minimum_iii = 7", "DG102", "packets.minimum_iii", "unknown key",
         "minimum_iii", "minimum_ii"),
    Case("unknown table", "[packets]", "[packet]", "DG102", "packet", "unknown key", "packet]", "packets"),
    Case("missing key", "branch_delay = 6\n", "", "DG103", "pipeline", "`branch_delay` is missing", "pipeline]"),
    Case("missing label", 'source = "S4"\n\n[instructions.SMOV]', '\n[instructions.SMOV]', "DG103",
         "instructions.SNEG", "`source` is missing", "instructions.SNEG]"),
    Case("wrong type", "transpose = true", 'transpose = "yes"', "DG104", "dma.transpose", "true or false", '"yes"'),
    Case("not a number", "startup = 60", "startup = 6.5", "DG104", "dma.startup", "not a float", "6.5"),
    Case("not a table", "[dma]\nstartup = 60\n", "[dma]\nstartup = [1]\n",
         "DG104", "dma.startup", "not a list", "[1]"),
    Case("bad word", 'label = "derived"\nsource = "size', 'label = "guessed"\nsource = "size', "DG104",
         "memories.AM.label", "'guessed'", '"guessed"'),
    Case("bad expression", '"8*lanes*units.VLDST.count"', '"8*lane*units.VLDST.count"', "DG105",
         "memories.AM.bytes_per_cycle", "`lane`", '"8*lane'),
    Case("bad range", 'names = "R{0..63}"', 'names = "R{63..0}"', "DG105", "registers.R.names", "empty", '"R{63'),
    Case("unknown class", ROW, ROW.replace('a = "R"', 'a = "RR"'), "DG106", "instructions.SNEG.operands.a",
         "`RR` is not a register class", '"RR"', "`R"),
    Case("unknown unit", ROW, ROW.replace('"SIEU"', '"SIEUX"'), "DG107", "instructions.SNEG.units",
         "`SIEUX` is not a unit", '"SIEUX"', "SIEU"),
    Case("no such member", 'units = "VMAC1"', 'units = "VMAC4"', "DG107", "instructions.VFADDS32.units",
         "`VMAC4` is not a unit", '"VMAC4"', "VMAC"),
    Case("register twice", 'names = "SMR"', 'names = "SCR"', "DG108", "registers.SCR.names", "`SCR`", '"SCR"'),
    Case("indistinct rows", ROW, ROW.replace("SNEG]", 'SNEG]\nmnemonic = "SMOV"'), "DG108", "instructions.SMOV",
         "as `SNEG`", "instructions.SMOV]"),
    Case("registers of vectors, too", 'names = "VR{0..63}"', 'names = "R{0..63}"', "DG108", "registers.VR.names",
         "the register `R0` is named in `R` too, and so are 63 more", '"R{0', "may be shared"),
    Case("no registers", 'names = "SMR"', "names = []", "DG103", "registers.SMR", "`names` is missing or empty",
         "registers.SMR]"),
    Case("an operand that no text has", ROW, ROW + 'text = "{d} ="\n', "DG104", "instructions.SNEG.text",
         "in their order: `{a}` is missing", '"{d} ="'),
    Case("a text's own operand", ROW, ROW + 'text = "{a} {d} {q}"\n', "DG104", "instructions.SNEG.text",
         "in their order: `{q}` is no operand", '"{a}'),
    Case("semantics cut", ROW, ROW.replace("(a)", "(a"), "DG109", "instructions.SNEG.semantics", "expected", '"d ='),
    Case("unknown operation", ROW, ROW.replace("neg", "negg"), "DG109", "instructions.SNEG.semantics",
         "`negg` is not an operation; did you mean `neg`?", '"d ='),
    Case("an operation like none", ROW, ROW.replace("neg", "qqqq"), "DG109", "instructions.SNEG.semantics",
         "`qqqq` is not an operation; docs/isa.md#semantics has them all", '"d ='),
    Case("wrong arity", ROW, ROW.replace("(a)", "(a, a)"), "DG109", "instructions.SNEG.semantics",
         "takes 1 argument, not 2", '"d ='),
    Case("bad type", ROW, ROW.replace("i32", "i33"), "DG109", "instructions.SNEG.semantics", "`i33` is not a type",
         '"d ='),
    Case("a type that it isn't for", ROW, ROW.replace("neg.i32", "sqrt.i32"), "DG109", "instructions.SNEG.semantics",
         "`sqrt` is for f32, f64", '"d ='),
    Case("unknown operand", ROW, ROW.replace("(a)", "(q)"), "DG110", "instructions.SNEG.semantics",
         "`q` is not an operand", '"d ='),
    Case("operand unused", ROW, ROW.replace('a = "R"', 'a = "R", c = "R"'), "DG110", "instructions.SNEG.operands.c",
         "does not occur", 'c = "R"'),
    Case("latency zero", ROW, ROW + "latency = 0\n", "DG111", "instructions.SNEG.latency", "at least 1, not 0", "0\n"),
    Case("late reader", ROW, ROW.replace('a = "R"', 'a = { reg = "R", read_cycle = 1 }'), "DG111", "instructions.SNEG",
         "lands after 1 cycles, but an operand is read in cycle 1", "instructions.SNEG]"),
    Case("late address", 'm = "memory", d = "R" }\nsemantics = "d = ld.i32(m)"',
         'm = { memory = true, read_cycle = 1 }, d = "R" }\nsemantics = "d = ld.i32(m)"', "DG111",
         "instructions.SLDW.operands.m.read_cycle", "of a register that is read", "1 }"),
    Case("a store that lands at once", 'semantics = "st.i32(m, a)"\nmemory = { scale = 4, bytes = 4, align = 4 }',
         'semantics = "st.i32(m, a)"\nmemory = { scale = 4, bytes = 4, align = 4, store_latency = 0 }', "DG111",
         "instructions.SSTW.memory.store_latency", "at least 1, not 0", "0 }"),
    Case("an odd alignment", 'semantics = "d = ld.i32(m)"\nlatency = 6\nmemory = { scale = 4, bytes = 4, align = 4 }',
         'semantics = "d = ld.i32(m)"\nlatency = 6\nmemory = { scale = 4, bytes = 4, align = 3 }', "DG111",
         "instructions.SLDW.memory.align", "a power of two, not 3", "3 }"),
    Case("other bytes", 'semantics = "d = ld.i32(m)"\nlatency = 6\nmemory = { scale = 4, bytes = 4, align = 4 }',
         'semantics = "d = ld.i32(m)"\nlatency = 6\nmemory = { scale = 4, bytes = 2, align = 4 }', "DG117",
         "instructions.SLDW.memory.bytes", "move 4 bytes, not 2", "2, align"),
    Case("a base updated at once", "update_latency = 1", "update_latency = 0", "DG111", "address_modes.update_latency",
         "at least 1, not 0", "0\n"),
    Case("held for no time", ROW, ROW + 'resources = [{ name = "port", cycles = 0 }]\n', "DG111",
         "instructions.SNEG.resources.0", "for 1 cycle or more", "{ name"),
    Case("old values under interlocks", "exposed = true", "exposed = false", "DG111", "pipeline.equals",
         "keeps no old values", "true"),
    Case("branch that holds on", 'semantics = "branch(t)"\n', 'semantics = "branch(t)"\nbusy = 8\n', "DG111",
         "instructions.SBR", "6 delay slots can't hold anything for 8 cycles", "instructions.SBR]"),
    Case("no lanes", "lanes = 16", "lanes = 0", "DG111", "lanes", "at least 1", "0\n"),
    Case("no such base", 'pair_of = "VR"', 'pair_of = "VX"', "DG112", "registers.VRP.pair_of", "`VX`", '"VX"'),
    Case("bad predicate", 'scalar = "R{0..2}"', 'scalar = "R{0..64}"', "DG113", "predicates.scalar", "`R64`", '"R{0'),
    Case("bad abi", 'result = "R10"', 'result = "Q10"', "DG113", "abi.result", "`Q10` is not a register", '"Q10"',
         "R10"),
    Case("a register like none", 'result = "R10"', 'result = "zz"', "DG113", "abi.result", "`zz` is not a register",
         '"zz"', "there are `R0` to `R63`"),
    Case("bad stack memory", 'stack_memory = "AM"', 'stack_memory = "AN"', "DG113", "abi.stack_memory", "`AN`",
         '"AN"'),
    Case("bad macro place", "SMVCCG SVR{k},{d}", "SMVCCG SVR{k},{e}", "DG114", "macros.lane.body.1", "`e`", '"SMVCCG'),
    Case("bad macro line", "SMVCCG SVR{k},{d}", "SMVCCX SVR{k},{d}", "DG114", "macros.lane.body.1",
         "`SMVCCX` is not a mnemonic", '"SMVCCX', "SMVC"),
    Case("bad term", "(sub.i32 1 (lt.i32 ?b ?a))", "(sub.i32 1 (lt.i32 ?b ?a)", "DG114",
         "rewrites.le_i32_vector.right", "`)` is missing", '"(sub'),
    Case("loose variable", "(sub.i32 1 (lt.i32 ?b ?a))", "(sub.i32 1 (lt.i32 ?c ?a))", "DG114",
         "rewrites.le_i32_vector.right", "`?c` does not occur", '"(sub'),
    Case("bad condition", 'when = "vector"\nwhy = "the sign bit"', 'when = "vectors"\nwhy = "the sign bit"', "DG114",
         "rewrites.lt_i32_zero_vector.when", "`vectors`", '"vectors"'),
    Case("bad template", 'text = "[{r}]"', 'text = "[{q}]"', "DG104", "predicates.text", "must hold `{r}`", '"[{q}'),
    Case("bad place", "[text]\n", '[text]\naddress = "{base}+{off}"\n', "DG104", "text.address",
         "must hold `{base}` and `{offset}`, and no other braces", '"{base}'),
    Case("empty range", "increment = [1, 15]", "increment = [15, 1]", "DG111", "address_modes.increment", "is empty",
         "[15, 1]"),
    Case("no memory facts", "memory = { scale = 4, bytes = 4, align = 4 }\n", "", "DG117", "instructions.SLDW",
         "needs the key `memory`", "instructions.SLDW]"),
    Case("words", '"rows", "row_bytes", "element", "go"]', '"rows", "element", "go"]', "DG118", "dma.words",
         "`row_bytes` is missing; they must be source, source_step", '["source"'),
    Case("other words", '"rows", "row_bytes", "element", "go"]', '"rows", "row_bytes", "go", "go", "size"]', "DG118",
         "dma.words", "`element` is missing, `size` is none of them, `go` is there twice", '["source"'),
    Case("words over memory", "base = 0x40170000", "base = 0x40160010", "DG117", "dma.base", "overlap the memory",
         "0x40160010"),
    Case("overlap", "base = 0x40100000", "base = 0x40000100", "DG117", "memories.SM", "overlaps the memory `AM`",
         "memories.SM]"),
]  # fmt: skip


def load(path: Path, text: str) -> tuple[Problem, ...]:
    path.write_text(text)
    with pytest.raises(IsaError) as caught:
        load_target(str(path))
    return caught.value.problems


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_each_kind_of_error_has_its_code_and_place(case: Case, tmp_path: Path) -> None:
    assert case.old in TEXT
    text = TEXT.replace(case.old, case.new, 1)
    path = tmp_path / "bad.toml"
    problems = load(path, text)
    found = [p for p in problems if f"`{case.key}`" in p.message and case.says in p.message]
    assert found, [p.message for p in problems]
    problem = found[0]
    assert problem.code == case.code
    assert case.helps in problem.remedy
    assert problem.loc is not None and problem.loc.file == str(path)
    lines = text.splitlines(keepends=True)
    there = lines[problem.loc.line - 1][problem.loc.column - 1 :]
    assert there.startswith(case.at), there
    assert problem.render().startswith(f"{path}:{problem.loc.line}:{problem.loc.column}: error[{case.code}]: ")


def test_several_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = TEXT.replace("minimum_ii = 7", "minimum_iii = 7").replace("startup = 60", "startup = []")
    text = text.replace("transpose = true", "transpose = 1").replace('kind = "vector"', 'kind = "vectro"', 1)
    problems = load(tmp_path / "bad.toml", text)
    assert [p.code for p in problems] == ["DG104", "DG102", "DG104", "DG104"]
    lines = [p.loc.line for p in problems if p.loc]
    assert lines == sorted(lines)
    assert "did you mean `vector`?" in problems[0].remedy
    second = TEXT.replace('d = "R" }', 'd = "RX" }', 3).replace('result = "R10"', 'result = "R99"')
    assert len(load(tmp_path / "bad.toml", second)) >= 4


@pytest.mark.parametrize("share", [0.001, 0.1, 0.35, 0.5, 0.77, 0.999])
def test_a_truncated_file_tells_where(share: float, tmp_path: Path) -> None:
    text = TEXT[: TEXT.index("=", int(len(TEXT) * share)) + 1]  # between two tables it would be a whole file
    problems = load(tmp_path / "cut.toml", text)
    assert all(p.loc is not None and p.loc.line >= 1 for p in problems)
    assert all(p.code.startswith("DG1") for p in problems)


def test_not_toml(tmp_path: Path) -> None:
    (problem,) = load(tmp_path / "bad.toml", 'name = "x"\nlanes = = 3\n')
    assert problem.code == "DG101"
    assert problem.loc is not None and (problem.loc.line, problem.loc.column) == (2, 9)
    (problem,) = load(tmp_path / "bad.toml", 'name = "x"\nunits = {')
    assert problem.code == "DG101"
    assert problem.loc is not None and problem.loc.line == 2
    (problem,) = load(tmp_path / "bad.toml", 'name = "x"\nlanes = 4\n  lanes = 8 # = 3\n')
    assert problem.message == "not valid TOML: the key `lanes` is there twice"
    assert problem.loc is not None and (problem.loc.line, problem.loc.column) == (3, 3)
    (tmp_path / "latin.toml").write_bytes(b'name = "x"\n# \xff\n')
    with pytest.raises(IsaError) as caught:
        load_target(str(tmp_path / "latin.toml"))
    assert caught.value.problems[0].loc is not None and caught.value.problems[0].loc.line == 2


@pytest.mark.parametrize("before", [0, 40, 300])
def test_long_lines_are_cut_round_the_place(before: int, tmp_path: Path) -> None:
    path = tmp_path / "long.toml"
    path.write_text(" " * before + "here" + " " * 300 + "|\n")
    _, line, caret = Problem("DG101", "wrong", Loc(str(path), 1, before + 1)).render().split("\n")
    assert len(line) <= 120 and line.endswith("...") and line.startswith("  ...") == (before > 100)
    assert line[caret.index("^") :].startswith("here")


def test_an_empty_file_misses_everything(tmp_path: Path) -> None:
    problems = load(tmp_path / "empty.toml", "")
    assert {p.code for p in problems} == {"DG103"}
    assert any("`registers`" in p.message for p in problems)


def test_unknown_machines_are_told_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(IsaError) as caught:
        load_target("ft_m7003")
    assert caught.value.problems[0].code == "DG100"
    assert "ft_m7002" in caught.value.render()
    with pytest.raises(IsaError) as caught:
        load_target(str(tmp_path / "none.toml"))
    assert caught.value.problems[0].code == "DG100"
    with pytest.raises(IsaError):
        load_target(str(tmp_path) + "/.toml")
    for odd in ("", "../isa/ft_m7002", "ft_m7002.tom", "a\0b"):
        with pytest.raises(IsaError):
            load_target(odd)
    assert "ft_m7002" in isa_names()


@pytest.mark.parametrize(
    ("key", "value", "code", "says"),
    [
        ("units.VMACS.count", "4", "DG115", "did you mean `VMAC`?"),
        ("unit", "4", "DG115", "ISA file has no `unit`"),
        ("lane", "4", "DG115", "did you mean `lanes`?"),
        ("lanes.x", "4", "DG115", "no keys below it"),
        ("units.VMAC.cont", "4", "DG102", "did you mean `count`?"),
        ("units.VMAC.count", "many", "DG105", "--set units.VMAC.count=many"),
        ("units.VMAC.count", "0", "DG111", "at least 1, not 0"),
        ("instruction.VLDX.d.latency", "4", "DG115", "did you mean"),
        ("instruction.VLDW.q.latency", "4", "DG115", "has no `q`"),
        ("instruction.VLDW.d.latencies", "4", "DG102", "did you mean `latency`?"),
        ("instruction.VLDW.d.latency", "0", "DG111", "at least 1, not 0"),
        ("", "4", "DG115", "has no ``"),
    ],
)
def test_bad_overrides(key: str, value: str, code: str, says: str) -> None:
    with pytest.raises(IsaError) as caught:
        load_target("ft_m7002", [(key, value)])
    assert caught.value.problems[0].code == code
    assert says in caught.value.render()
    assert "--set" in caught.value.render()


def test_all_bad_overrides_are_told() -> None:
    with pytest.raises(IsaError) as caught:
        load_target("ft_m7002", [("a.b", "1"), ("lanes", "8"), ("c", "2")])
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("added", "says"),
    [
        ("x = " + "[" * 50_000 + "]" * 50_000, "values are nested too deeply"),
        ("x = " + "{ a = " * 50_000 + "1" + " }" * 50_000, "values are nested too deeply"),
        ("\n".join(ROW.replace("SNEG", f"ROW{k}") for k in range(10_000)), "the file has more than 1048576 bytes"),
    ],
    ids=("arrays", "tables", "rows"),
)
def test_files_that_are_too_large(added: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text(f"{added}\n{TEXT}")
    with pytest.raises(IsaError) as caught:
        load_target(str(path))
    (problem,) = caught.value.problems
    assert problem.code == "DG101" and says in problem.message and problem.loc == Loc(str(path), 1)


def test_deep_values_that_are_set() -> None:
    with pytest.raises(IsaError, match="nested too deeply"):
        load_target("ft_m7002", [("lanes", "[" * 50_000 + "]" * 50_000)])
