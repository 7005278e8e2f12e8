"""Functions with more arguments than machines have registers for, of all types and in any order."""

from __future__ import annotations

import random
from collections.abc import Sequence

_SCALARS = {"f": "float", "i": "int", "s": "short", "d": "double"}


def many_arguments(seed: int, count: int, kinds: Sequence[str], *, sized: bool, result: bool = False) -> str:
    """Return the C text of a function `k` with `count` parameters; `kinds`: letters of the scalars' types; `sized`:
    arrays are as long as a parameter tells; with a `result`, it gives a number back."""
    choose = random.Random(seed)
    length = "n" if sized else "40"
    declared, floats, integers = ["float *y0", "int *z0"], ["y0[i]"], ["z0[i]"]
    doubles: list[str] = []
    for k in range(count - 2 - sized):
        kind = choose.choice([*kinds, "F", "I"])
        if kind in _SCALARS:
            declared.append(f"{_SCALARS[kind]} {kind}{k}")
            {"f": floats, "d": doubles}.get(kind, integers).append(f"{kind}{k}")
        else:
            declared.append(f"const {'float' if kind == 'F' else 'int'} *{kind.lower()}a{k}")
            (floats if kind == "F" else integers).append(f"{kind.lower()}a{k}[i]")
    choose.shuffle(declared)
    if sized:
        declared.insert(choose.randrange(len(declared)), "int n")
    named = [d if "*" not in d else f"{d.replace('*', '')}[{length}]" for d in _sizes_first(declared)]
    product = "".join(f" + {x}" if k else f" + {choose.choice(floats)} * {x}" for k, x in enumerate(floats[1:]))
    mixed = "".join(f" {choose.choice('+-')} {x}" for x in integers[1:])
    wide = "".join(f" + (float){x}" for x in doubles)
    begin, end = ("float s = 0;", "s += y0[i];") if result else ("", "")
    return f"""{"float" if result else "void"} k({", ".join(named)}) {{
  {begin}
  for (int i = 0; i < {length}; i++) {{
    z0[i] = z0[i]{mixed};
    y0[i] = y0[i]{product}{wide};
    {end}
  }}
  {"return s;" if result else ""}
}}
"""


def _sizes_first(declared: Sequence[str]) -> list[str]:
    """C wants a parameter in front of those whose type names it."""
    return sorted(declared, key=lambda d: d != "int n")
