"""Wrong linear assembly: what is said, where, and the remedy."""

from __future__ import annotations

import pytest

from dspgen.driver.linear_asm import schedule_text
from dspgen.errors import NoSchedule, SourceError
from dspgen.lasm.function import linear_functions
from dspgen.lasm.warnings import DOUBTS
from dspgen.target.load import load_target

SUM = """
        .global total
        .input a1:a0, n
        .gen_var x, s
        .add_var p
        .output s
        SMVAGA36 a1:a0, p
        SMOVIL 0, s
.sum: .loop
        SLDW *p++[1], x
        SADD x, s, s
        SSUB 1, n, n
        [n]SBR .sum
        .endloop
        .size total, .-total
"""


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "code", "words", "remedy"),
    [
        (".global total", "", 7, 9, "DG340", "a function without a name", ".global NAME"),
        (".global total", ".global ../total", 2, 9, "DG340", "no function can have the name '../total'", "letters"),
        (".size", ".size f\n .global g\n SNOP\n .global total\n .size", 18, 2, "DG340", "(first in line 2)", "another"),
        (".gen_var", ".genvar", 4, 9, "DG340", "unknown directive .genvar", ".gen_var?"),
        ("SADD x, s, s", ".equ K, 4", 11, 9, "DG340", "unknown directive .equ", ""),
        ("a1:a0, n", "a2:a1:a0, n", 3, 16, "DG340", "no pair of names", ""),
        ("        SADD x", "|       SADD x", 11, 9, "DG340", "no packets", "leave the bar out"),
        (".sum: .loop", ".sum: .loop\n .trip x", 10, 2, "DG340", ".trip takes", ""),
        (".sum: .loop", ".sum: .loop\n .trip 9, 2", 10, 2, "DG340", "at least 9 trips and at most 2", "comes first"),
        ("a1:a0, n", "a1:a0, n, n", 3, 26, "DG341", "n is declared twice", ""),
        (".add_var p", ".add_var p\n .gen_var s", 6, 11, "DG341", "s is declared twice (first in line 4)", ""),
        (".add_var p", ".add_var p, s", 5, 21, "DG341", "s is declared twice (first in line 4)", ""),
        ("SADD x,", "SADD z,", 11, 14, "DG341", "z is not declared", ".gen_var z"),
        ("SADD x,", "SADD R3,", 11, 14, "DG341", "R3 is not declared", ".gen_var R3"),
        ("SLDW *p++[1]", "SLDW *base++[1]", 10, 14, "DG341", "base is not declared", ".add_var base"),
        ("[n]SBR", "[count]SBR", 13, 16, "DG341", "count is not declared", ".gen_var count"),
        (".output s", ".output z", 6, 17, "DG341", "z is not declared", ""),
        ("SMVAGA36 a1:a0, p", "SMVAGA36 a1:a0, x", 7, 25, "DG342", "x would be a scalar-side", "with .add_var, or"),
        ("[n]SBR", "[p]SBR", 13, 12, "DG342", "p would be a scalar register here", "of their own"),
        ("SADD x, s, s", "SLDW *x, s", 11, 14, "DG342", "x would be a scalar-side address", "of their own"),
        ("SADD x, s, s", "VADD x, x, x", 11, 14, "DG342", "x would be a vector register", "of their own"),
        ("SADD x, s, s", "SADD s, 1, s", 11, 14, "DG342", "s would be", "a register is needed here, not 1"),
        ("SADD x,", "sadd x,", 11, 9, "DG343", "has no instruction sadd", "did you mean SADD?"),
        ("SADD x, s, s", "VSQ x, *p++, s", 11, 9, "DG343", "has no instruction VSQ", 'm = "memory"'),
        ("SADD x, s, s", "SADD x s s", 11, 9, "DG344", "takes 3 operands, not 1", "put commas"),
        ("SADD x, s, s", "SADD x, s, s, s", 11, 9, "DG344", "takes 3 operands, not 4", "it is SADD a, b, d"),
        ("SADD x, s, s", "SADD 99, s, s", 11, 14, "DG344", "99 is out of range: -32 to 31", ""),
        ("SADD x, s, s", "SADD *p, s, s", 11, 14, "DG344", "no memory operand can stand here", ""),
        ("SLDW *p++[1], x", "SLDW p, x", 10, 14, "DG344", "a memory operand is needed here, not p", ""),
        ("*p++[1]", "*p+++[1]", 10, 14, "DG344", "'*p+++[1]' is no operand", ""),
        ("*p++[1]", "*p++[1.5]", 10, 14, "DG344", "1.5 is no whole number", ""),
        ("SMOVIL 0, s", "SMOVIL #0, s", 8, 16, "DG344", "'#0' is no operand", "numbers have no mark: 0"),
        ("SMOVIL 0, s", "SMOVIL 99999999999999, s", 8, 16, "DG344", "does not fit 32 bits", ""),
        ("SADD x", "SADD.Q x", 11, 9, "DG344", "no unit is called .Q", "leave it out"),
        ("SBR .sum", "SBR n", 13, 16, "DG344", "a label is needed here, not n", ""),
        ("SADD x, s, s", "SADD SVR0, s, s", 11, 14, "DG344", "SVR0 can't stand here", ""),
        ("SBR .sum", "SBR .sun", 13, 16, "DG345", "unknown label .sun", "did you mean .sum?"),
        (".sum: .loop", ".sum:\n.sum: .loop", 10, 1, "DG345", "defined twice (first in line 9)", ""),
        (".sum: .loop", ".loop", 9, 1, "DG345", "a loop needs its label", ".name: .loop"),
        ("        .endloop\n", "", 9, 7, "DG345", "a loop without its .endloop", ""),
        ("        [n]SBR .sum\n", "", 9, 7, "DG345", "no branch goes back to .sum", "just before .endloop"),
        (".endloop", ".endloop\n .endloop", 15, 2, "DG345", "there is no loop that ends here", ""),
        (".output s", ".output s, x", 6, 20, "DG346", "one value", ""),
        ("a1:a0, n", "a1:a0,n,b,c,d,e,f,g,h", 3, 36, "DG346", "9 inputs; arguments come in 8 registers", ""),
    ],
)  # fmt: skip
def test_wrong_text(old: str, new: str, line: int, column: int, code: str, words: str, remedy: str) -> None:
    assert old in SUM
    with pytest.raises(SourceError) as caught:
        linear_functions(SUM.replace(old, new, 1), load_target("ft_m7002"), "x.sa")
    first = caught.value.problems[0]
    assert first.loc is not None
    assert (first.loc.line, first.loc.column, first.code) == (line, column, code), first.render()
    assert words in first.message and remedy in first.remedy


@pytest.mark.parametrize(
    ("old", "new", "line", "column", "words"),
    [
        ("SMOVIL 0, s", "", 11, 9, "s may be read before it is written"),
        ("SADD x, s, s", "SADD s, s, s", 0, 0, ""),
        ("SMOVIL 0, s", "[n]SMOVIL 0, s", 11, 9, "s may be read before it is written"),
        (".endloop", "SADD x, s, s\n .endloop", 14, 9, "SADD stands behind the branch back to .sum"),
    ],
)
def test_doubtful_text(old: str, new: str, line: int, column: int, words: str) -> None:
    assert old in SUM
    (function,) = linear_functions(SUM.replace(old, new, 1), load_target("ft_m7002"), "x.sa")
    notes = [(n.loc, n.message) for n in function.notes if n.kind in DOUBTS]
    if not words:
        assert notes == []
        return
    ((loc, message),) = notes
    assert loc is not None and (loc.line, loc.column) == (line, column) and words in message


def test_more_pointers_than_registers() -> None:
    pointers = [f"p{k}" for k in range(36)]
    head = f".global f\n .input x1:x0, n\n .add_var {', '.join(pointers)}\n .gen_var v, s\n .output s\n SMOVIL 0, s\n"
    sets = "".join(f" SMVAGA36 x1:x0, {p}\n SADDA 4, {p}, {p}\n" for p in pointers)
    loads = "".join(f" SLDW *{p}++[1], v\n SADD v, s, s\n" for p in pointers)
    text = f"{head}{sets}.a: .loop\n{loads} SSUB 1, n, n\n [n]SBR .a\n .endloop\n"
    with pytest.raises(NoSchedule) as caught:
        schedule_text(text, load_target("ft_m7002"), file="x.sa", method="list")
    (problem,) = caught.value.problems
    assert "here 36 variables are in use of class ARS, which has 8 registers: p0, p1, p2, " in problem.message
    assert str(problem.loc) == "x.sa:78:2" and "only where they are used" in problem.remedy
