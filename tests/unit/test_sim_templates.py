"""Text whose instructions are written by templates of their own: packets in brackets, places in memory, predicates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dspgen.driver.linear_asm import schedule_text
from dspgen.driver.pipeline import compile_file
from dspgen.emit.text import print_lines
from dspgen.errors import IsaError, SourceError
from dspgen.options import Options
from dspgen.sched.ir.packets import Address, Packet
from dspgen.sim.run import simulate
from dspgen.sim.text.parse import assemble
from dspgen.target.isa.model import Target
from dspgen.target.load import isa_path, load_target

TEXT = """\
        .global f
f:      { r1 = #7; r2 = add(r0,#-3) }   // both at once
        {
            r10 = r0
            r3 = r1
        }
loop:
        { r1 = add(r1,#-1); r3 = mpyi(r3,r2) }
        { if (r1!=#0) jump:nt loop }
        { r0 = r3; jumpr r31 }
"""


@pytest.fixture(scope="module")
def machine() -> Target:
    return load_target("hexagon_v66")


LOOP = """\
        .global one
        .input a, n
        .gen_var v
        .add_var x
        S_A_SET x, a
lp:     .loop
        S_LD_I32 v, *x
        S_ADD v, v, n
        S_ST_I32 *x++[1], v
        S_ADD_I n, n, -1
        [n] S_JUMP lp
        .endloop
        .size one, .-one
"""


@pytest.mark.parametrize("label", ["lp", ".l", "new", "add", "memw", "r0", "l.x", "endloop0", ".endloop0"])
def test_labels_may_be_called_like_words_of_the_machine(label: str, machine: Target) -> None:
    """They are read back from the text, which calls them something else where it has to."""
    (function,) = schedule_text(LOOP.replace("lp", label), machine)
    result = simulate(function.asm, machine, arguments=[("a", np.arange(4, dtype=np.int32)), ("n", 4)], strict=False)
    assert result.warnings == ()  # nothing lands late where packets wait
    assert result.outputs["a"].tolist() == [4, 4, 4, 4]
    assert (f"{label}:" in function.asm) == (label == "lp")


def test_functions_called_like_registers(machine: Target, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no function can be called r1: it is a register of hexagon_v66") as refused:
        schedule_text(LOOP.replace("one", "r1"), machine, file="x.sa")
    assert str(refused.value.problems[0].loc) == "x.sa:1:9"
    (tmp_path / "f.c").write_text("void v2(int x[4]) { x[0] = 1; }")
    with pytest.raises(SourceError, match="no function can be called v2") as refused:
        compile_file(str(tmp_path / "f.c"), machine, Options())
    assert refused.value.problems[0].code == "DG022"


@pytest.mark.parametrize(
    ("old", "new", "words", "remedy"),
    [
        ("mpyi(r3", "mpyii(r3", "unknown instruction mpyii", "did you mean mpyi?"),
        ("mpyi(r3", "MPYI(r3", "unknown instruction MPYI", "did you mean mpyi?"),
        ("mpyi(r3", "frobnicate(r3", "unknown instruction frobnicate", ""),
        ("mpyi(r3,r2)", "mpyi(r3)", "unknown instruction _=mpyi(_)", "did you mean _=mpyi"),
        (
            "            r3 = r1\n        }",
            "            r3 = r1\n",
            "`{` is out of place: the packet of line 3 is not",
            "",
        ),
        ("jumpr r31 }", "jumpr r31", "a packet that is not closed", ""),
    ],
)
def test_what_is_wrong_is_named(old: str, new: str, words: str, remedy: str, machine: Target) -> None:
    assert old in TEXT
    with pytest.raises(SourceError) as caught:
        assemble(TEXT.replace(old, new), machine)
    (problem,) = caught.value.problems
    assert words in problem.message and remedy in problem.remedy, problem.render()


def test_an_unknown_label_of_a_loop_is_told_once(machine: Target) -> None:
    text = "f:  { r1 = #4 }\n    { loop0(##g,r1) }\nh:  { r0 = add(r0,#1) }:endloop0\n    { jumpr r31 }\n"
    with pytest.raises(SourceError) as caught:
        assemble(text, machine)
    assert [p.code for p in caught.value.problems] == ["DG403"]


def test_packets(machine: Target) -> None:
    program = assemble(TEXT, machine)
    assert [len(p.members) for p in program.packets] == [2, 2, 2, 1, 2]
    assert program.labels == {"f": 0, "loop": 2}
    branch = program.packets[3].members[0]
    assert (branch.predicate, branch.negated, branch.operands) == ("r1", False, ("@loop",))


def test_it_runs(machine: Target) -> None:
    result = simulate(TEXT, machine, arguments=[("n", 5)])
    assert result.result == 7 * 2**7
    assert result.packets == 2 + 2 * 7 + 1
    assert result.cycles == result.packets + result.stalls


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("r1 = memw(r10+#8)", Address("r10", "plus", 2)),
        ("r1 = memw(r10+#-4)", Address("r10", "minus", 1)),
        ("r1 = memw(r10+#0)", Address("r10", "none")),
        ("r1 = memh(r10++#2)", Address("r10", "post_inc", 1)),
        ("v1 = vmem(r10++#-1)", Address("r10", "post_dec", 1)),
        ("memb(r11+#5) = r1", Address("r11", "plus", 5)),
    ],
)
def test_places_in_memory(text: str, address: Address, machine: Target) -> None:
    (packet,) = assemble(f"f: {{ {text} }}", machine).packets
    (member,) = packet.members
    assert address in member.operands
    assert text in print_lines([Packet(packet.members)], machine)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("r1 = memw(r10+#6)", "offset 6 is out of range: 0 to 4092 by 4"),
        ("r1 = memw(r1+#0)", "r1 can't address memory"),
        ("r1 = madd(r1,r2)", "unknown instruction"),
        ("v1.w = vmpyie(v2.w,v3.uh); v4.w = vmpyie(v2.w,v3.uh)", "no unit is left"),
        ("r1 = add(r2,#40000)", "out of range"),
    ],
)
def test_what_is_refused(text: str, told: str, machine: Target) -> None:
    with pytest.raises(SourceError, match=told):
        assemble(f"f: {{ {text} }}", machine)


def test_registers_of_two_classes(machine: Target) -> None:
    """r8 is a scalar and an address."""
    text = "f: { r8 = r0 }\n { r8 = add(r8,#4) }\n { r0 = memw(r8+#0); jumpr r31 }\n"
    values = np.array([3, 5, 7], dtype=np.int32)
    for engine in ("python", "native"):
        result = simulate(text, machine, arguments=[("x", values)], engine=engine)  # type: ignore[arg-type]
        assert (result.result, result.packets) == (5, 3)


def test_registers_of_a_smaller_class(machine: Target) -> None:
    """r6 is a scalar, and one of the few that tell how many bytes."""
    text = """f: { r6 = r0 }
        { r10 = r1 }
        { r11 = r2; v0 = vmemu(r10+#0) }
        { v1 = vmemu(r10+#1) }
        { v2 = valign(v1,v0,r6) }
        { q0 = vsetq(r6) }
        { v2 = vmux(q0,v2,v0) }
        { vmemu(r11+#0) = v2; jumpr r31 }
    """
    x, y = np.arange(64, dtype=np.int32), np.zeros(32, np.int32)
    for engine in ("python", "native"):
        result = simulate(text, machine, arguments=[("n", 12), ("x", x), ("y", y)], engine=engine)  # type: ignore[arg-type]
        assert result.outputs["y"].tolist() == [3, 4, 5, *range(3, 32)]
    with pytest.raises(SourceError):
        assemble("f: { v2 = valign(v1,v0,r8) }", machine)


def test_classes_that_overlap(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Of two classes of scalars one is in the other, or they have nothing in common."""
    text = isa_path("hexagon_v66").read_text(encoding="utf-8")
    path = tmp_path / "overlap.toml"
    path.write_text(text.replace('names = "r{0..7}"', 'names = ["r{0..7}", "r30"]', 1), encoding="utf-8")
    with pytest.raises(IsaError, match="is named in `R` too"):
        load_target(str(path))


def test_registers_of_two_widths(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = isa_path("hexagon_v66").read_text(encoding="utf-8")
    path = tmp_path / "wide.toml"
    path.write_text(text.replace("bits = 32", "bits = 16", 1), encoding="utf-8")
    with pytest.raises(IsaError, match="is named in `R` too"):
        load_target(str(path))


def test_a_unit_is_no_resource(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = isa_path("hexagon_v66").read_text(encoding="utf-8")
    path = tmp_path / "resource.toml"
    held = 'units = "VUNAL"\nresources = [{ name = "PORT1" }]'
    path.write_text(text.replace('units = "VUNAL"', held, 1), encoding="utf-8")
    with pytest.raises(IsaError, match="`PORT1` is a unit"):
        load_target(str(path))


def test_rows_name_their_operands_in_order(tmp_path) -> None:  # type: ignore[no-untyped-def]
    text = isa_path("hexagon_v66").read_text(encoding="utf-8")
    path = tmp_path / "turned.toml"
    path.write_text(text.replace('text = "{d} = sub({a},{b})"', 'text = "{d} = sub({b},{a})"'), encoding="utf-8")
    with pytest.raises(IsaError, match="each operand once, in their order"):
        load_target(str(path))


def _changed(tmp_path: Path, *edits: tuple[str, str]) -> Target:
    text = isa_path("hexagon_v66").read_text(encoding="utf-8")
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "machine.toml"
    path.write_text(text, encoding="utf-8")
    return load_target(str(path))


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ('text = "{d} = sub({a},{b})"\n', "", "S_SUB r0, r1, r2"),
        ('text = "{d} = sub({a},{b})"\n', 'text = "{d} = {a} -. ${b}"\n', "r0 = r1 -. $r2"),
        ('text = "{d} = sub(#{a},{b})"\n', 'text = "{d} = ${a}.{b}"\n', "r0 = $7.r2"),
    ],
)
def test_rows_without_a_text_and_marks_before_operands(tmp_path: Path, old: str, new: str, written: str) -> None:
    """Such rows are written as their mnemonics and operands; `.` and `$` are no labels by themselves."""
    target = _changed(tmp_path, (old, new))
    ((member,),) = [p.members for p in assemble(f"{{ {written} }}", target).packets]
    assert print_lines([Packet((member,))], target).split("\n")[1].strip() == written


def test_predicates_before_texts_without_one_of_their_own(tmp_path: Path) -> None:
    own = 'text_if = "if ({predicate}!=#0) jump:nt {t}"\n', 'text_unless = "if ({predicate}==#0) jump:nt {t}"\n'
    mark = ("[predicates]\n", '[predicates]\ntext = "given {r}:"\nnegated = "not {r}:"\n')
    target = _changed(tmp_path, mark, *((text, "") for text in own))
    text = "loop:\n{ given r1: jump loop }\n{ not r2: jump loop }\n"
    members = [m for p in assemble(text, target).packets for m in p.members]
    assert [(m.predicate, m.negated) for m in members] == [("r1", False), ("r2", True)]
    assert "given r1: jump loop" in print_lines([Packet((members[0],))], target)
