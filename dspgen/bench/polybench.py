"""The thirty kernels of PolyBench 4.2.1: where they are, and their problem sizes."""

from __future__ import annotations

from collections.abc import Sequence

from dspgen.bench.programs import program
from dspgen.errors import DspgenError, Problem
from dspgen.target.schema.structure import suggest

SIZES = ("mini", "small", "medium", "large", "odd")
Defines = tuple[tuple[str, str], ...]

# Macros in the order of the figures; mini, small, medium and large are the suite's own. The odd ones are ours: neither
# a lane count nor a tile divides them, and gramschmidt's columns are independent.
_TABLE = """
correlation     M N             28 32           80 100          240 260             1200 1400                 29 37
covariance      M N             28 32           80 100          240 260             1200 1400                 31 43
gemm            NI NJ NK        20 25 30        60 70 80        200 220 240         1000 1100 1200            37 61 53
gemver          N               40              120             400                 2000                      67
gesummv         N               30              90              250                 1300                      59
symm            M N             20 30           60 80           200 240             1000 1200                 29 47
syr2k           M N             20 30           60 80           200 240             1000 1200                 31 53
syrk            M N             20 30           60 80           200 240             1000 1200                 31 53
trmm            M N             20 30           60 80           200 240             1000 1200                 37 59
2mm             NI NJ NK NL     16 18 22 24     40 50 70 80     180 190 210 220     800 900 1100 1200         29 35 23 51
3mm             NI NJ NK NL NM  16 18 20 22 24  40 50 60 70 80  180 190 200 210 220 800 900 1000 1100 1200    21 33 47 29 19
atax            M N             38 42           116 124         390 410             1900 2100                 41 67
bicg            M N             38 42           116 124         390 410             1900 2100                 67 41
doitgen         NQ NR NP        8 10 12         20 25 30        40 50 60            140 150 160               7 5 37
mvt             N               40              120             400                 2000                      71
cholesky        N               40              120             400                 2000                      53
durbin          N               40              120             400                 2000                      61
gramschmidt     M N             20 30           60 80           200 240             1000 1200                 47 31
lu              N               40              120             400                 2000                      51
ludcmp          N               40              120             400                 2000                      49
trisolv         N               40              120             400                 2000                      83
deriche         W H             64 64           192 128         720 480             4096 2160                 37 53
floyd-warshall  N               60              180             500                 2800                      43
nussinov        N               60              180             500                 2500                      47
adi             TSTEPS N        20 20           40 60           100 200             500 1000                  7 29
fdtd-2d         TMAX NX NY      20 20 30        40 60 80        100 200 240         500 1000 1200             7 23 37
heat-3d         TSTEPS N        20 10           40 20           100 40              500 120                   7 21
jacobi-1d       TSTEPS N        20 30           40 120          100 400             500 2000                  9 83
jacobi-2d       TSTEPS N        20 30           40 90           100 250             500 1300                  7 39
seidel-2d       TSTEPS N        20 40           40 120          100 400             500 2000                  7 37
"""  # noqa: E501


def _rows() -> dict[str, dict[str, Defines]]:
    found = {}
    for line in _TABLE.split("\n"):
        if not line:
            continue
        name, *rest = line.split()
        count = len(rest) // (len(SIZES) + 1)
        macros = rest[:count]
        groups = [rest[count * (k + 1) : count * (k + 2)] for k in range(len(SIZES))]
        found[name] = {s: tuple(zip(macros, group, strict=True)) for s, group in zip(SIZES, groups, strict=True)}
    return found


_DEFINES = _rows()
KERNELS = tuple(_DEFINES)


def defines(kernel: str, size: str) -> Defines:
    """The macros that give a kernel one of `SIZES`."""
    return _DEFINES[kernel][size]


def source(kernel: str) -> str:
    """The kernel's C file. Raises DspgenError where this installation came without the examples."""
    return program(f"polybench/{kernel}.c")


def chosen(only: Sequence[str]) -> tuple[str, ...]:
    """The kernels named by --only, each text with one or more names between commas; all where there is none.

    Raises DspgenError for a name that is no kernel's.
    """
    names = [name.strip() for text in only for name in text.split(",") if name.strip()]
    problems = [
        Problem("DG510", f"--only {name}: there is no such kernel", remedy=_suggestion(name))
        for name in dict.fromkeys(names)
        if name not in KERNELS
    ]
    if only and not names:
        problems.append(Problem("DG510", "--only names no kernel", remedy=f"the kernels are {', '.join(KERNELS)}"))
    if problems:
        raise DspgenError(*problems)
    return tuple(name for name in KERNELS if name in names) if names else KERNELS


def _suggestion(name: str) -> str:
    return suggest(name, list(KERNELS)) or f"the kernels are {', '.join(KERNELS)}"
