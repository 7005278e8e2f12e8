"""The grammar of scheduled text as people and tools write it, point by point: it runs and returns what it says."""

from __future__ import annotations

import numpy as np
import pytest

from dspgen.errors import SourceError
from dspgen.sim.run import simulate
from dspgen.target.load import load_target

HEAD = ".global f\nf:\n"
BACK = " SBR R62\n SNOP 6\n"
ACCEPTED: dict[str, tuple[str, int]] = {
    "a predicate behind the bar": (" SMOVIL 1,R0\n\tSMOVIL 3,R10\n SNOP 1\n|[R0]SADD\t2,R10,R11\n SMOV R11,R10\n", 5),
    "blanks in and behind brackets": (" SMOVIL 1,R1\n [ ! R1 ]   SMOVIL 2,R10\n [ R1 ]SMOVIL 3,R10\n", 3),
    "blank and comment lines in a packet": (" SMOVIL 1,R10\n\n; note\n| SMOV.M1 R10,R12\n;| SMOV.M1 R10,R10\n", 1),
    "a debug label in a packet": (" SMOVIL 1,R10\n.LVL3:\n| SMOV.M1 R2,R12\n", 1),
    "directives in a packet": (" SMOVIL 1,R10\n .loc 1 3 0\n| SMOV.M1 R10,R12\n .cfi_def_cfa 1, 2\n", 1),
    "a bar without an instruction": (" SMOVIL 4,R10\n|\n", 4),
    "comments of either kind": (" SMOVIL 1,R10 // one, 注释\n;; x\n SMOV R10,R10 ;# y\n", 1),
    "the unit suffix of control": (" SMOVIL.L 7,R10\n", 7),
    "labels with leading dots": (".preparation:\n SMOVIL 5,R10\n.restoration:\n", 5),
    "letters of labels": (" SMOVIL 4,R10\n SBR .a$b_1\n SNOP 6\n.a$b_1:\n", 4),
    "a label before its instruction": (" SMOVIL 4,R10\n.L: SMOV R10,R10\n", 4),
    "a label before a bar": (" SMOVIL 4,R10\n.L: | SMOV.M1 R10,R12\n", 4),
    "blanks round operands": (" SMVAGA36 R11:R10 ,AR9\n SNOP 1\n SLDW *+AR9[ 1 ] ,R10\n SNOP 5\n", 11),
    "an increment of one": (" SMVAGA36 R11:R10,AR9\n SNOP 1\n SLDW *++AR9,R10\n SNOP 5\n", 11),
    "hexadecimal numbers": (" SMOVIL 0X00Ff,R10\n", 255),
    "negative hexadecimal numbers": (" SMOVIL -0x10,R10\n", -16),
    "symbols with numbers": (
        " SMOVIL.L tab+4,R10\n SMOVIH.L tab+4,R10\n SMVAGA32 R10,AR9\n SNOP 1\n SLDW *AR9,R10\n SNOP 5\n"
        " SBR end\n SNOP 6\n.data\n.align 4\ntab:\n .long 5, 9\n.text\nend:\n",
        9,
    ),
    "inline assembler": (";APP\n   SMOVIL   1 ,  R10\n;NO_APP\n", 1),
    "a no-operation without a number": (" SMOVIL 4,R10\n SNOP\n", 4),
    "a no-operation in a packet": (" SMOVIL 4,R10\n SMOVIL 2,R11\n| SNOP 3\n", 4),
    "a no-operation under a predicate": (" SMOVIL 1,R1\n SMOVIL 4,R10\n[!R1] SNOP 3\n", 4),
    "units for what has no suffix": (" SMOVIL 1,R11\n SADD 1,R11,R12\n| SADD 2,R11,R13\n| SADD 3,R11,R10\n", 4),
    "branches one after the other": (
        " SMOVIL 0,R0\n SMOVIL 1,R1\n [R0]SBR A\n [R1]SBR B\n SNOP 6\nA: SMOVIL 1,R10\n SBR C\n SNOP 6\n"
        "B: SMOVIL 2,R10\nC:\n",
        2,
    ),
    "delay slots that count": (
        " SMOVIL 3,R0\n SMOVIL 0,R10\n.loop_i:\n [R0]SBR .loop_i\n SSUB 1,R0,R0\n| SADD.M1 2,R10,R10\n SNOP 5\n",
        8,
    ),
    "a read while a load is in flight": (
        " SMVAGA36 R11:R10,AR8\n SMOVIL 5,R10\n SLDW *AR8,R10\n SADD.M1 R10,R10,R12\n SNOP 4\n SADD.M1 R10,R12,R10\n",
        20,
    ),
    "two results in flight to one register": (
        " SMVAGA36 R11:R10,AR8\n SNOP 1\n SLDW *AR8,R10\n SLDW *+AR8[1],R10\n SNOP 4\n SMOV.M1 R10,R12\n"
        " SADD.M1 R10,R12,R10\n",
        21,
    ),
}  # fmt: skip


def result(text: str) -> int:
    arguments = [("x", np.arange(10, 20, dtype=np.int32))]
    return int(simulate(text, load_target("ft_m7002"), arguments=arguments, strict=False, engine="python").result or 0)


@pytest.mark.parametrize("point", ACCEPTED)
def test_accepted(point: str) -> None:
    body, wanted = ACCEPTED[point]
    assert result(HEAD + body + BACK) == wanted
    assert result((HEAD + body + BACK).replace("\n", "\r\n").rstrip()) == wanted


@pytest.mark.parametrize(
    ("head", "tail"),
    [
        (' .file "a,b;c.c"\n .section .text,"ax",@progbits\n .align 8\n .type f, @function\n', " .size f,.-f\n"),
        ("", " .size f,-f\n .ident x\n"),
        ("", '.data\ns: .string "a;b|c:"\n .2byte 3\n .llong 4\n .zero 8\n .uleb128 5\n'),
    ],
)
def test_directives(head: str, tail: str) -> None:
    assert result(head + HEAD + " SMOVIL 1,R10\n" + BACK + tail) == 1


def test_a_function_without_its_directive() -> None:
    assert result("f:\n SMOVIL 3,R10\n" + BACK) == 3


@pytest.mark.parametrize(
    ("body", "code", "remedy"),
    [
        (" SMOVIL 1,R10\n| SMOVIL 2,R11\n", "DG406", ""),
        (" SLDW *AR0,R10\n", "DG411", "use AR8 to AR15"),
        (" smovil 3,R10\n", "DG401", "did you mean SMOVIL?"),
        (" SMULS R1,R2,R12:R11\n", "DG402", "R11:R10 and R13:R12 are pairs"),
        (" SMULS R1,R2,R12:R13\n", "DG402", "did you mean R13:R12?"),
        (" /* x */ SMOVIL 3,R10\n", "DG400", ""),
        (" SMOVIL 3,R10\n| SMOV.M1 R2,R10\n", "DG422", ""),
        (" [R9] SMOVIL 3,R10\n", "DG408", "use one of R0, R1, R2"),
        (" SNOP 8\n", "DG404", ""),
    ],
)
def test_refused(body: str, code: str, remedy: str) -> None:
    with pytest.raises(SourceError) as caught:
        result(HEAD + body + BACK)
    assert caught.value.problems[0].code == code
    assert remedy in caught.value.problems[0].remedy
