"""Random C nests whose conditions, subscripts and ends of loops are arithmetic in narrow and unsigned types."""

from __future__ import annotations

import random

_CASTS = (
    "",
    "",
    "(unsigned)",
    "(unsigned)",
    "(int)",
    "(unsigned char)",
    "(signed char)",
    "(short)",
    "(unsigned short)",
)
_FACTORS = ("3", "7", "5u", "40", "300", "0x10000000u", "0x14000000u", "200000000u", "3000000000u", "1000")


def _term(rng: random.Random, names: list[str], depth: int) -> str:
    """Draw an expression; signed ones of int stay within it."""
    if depth == 0:
        return f"({rng.choice(names)} + {rng.randint(-9, 9)})" if rng.random() < 0.6 else rng.choice(names)
    cast, inner = rng.choice(_CASTS), _term(rng, names, depth - 1)
    match rng.randrange(7):
        case 0 | 1:
            factor = rng.choice(_FACTORS)
            wide = "(unsigned)" if len(factor) > 5 else ""
            return f"{cast}({wide}{inner} * {factor})" if depth < 2 or wide else f"{cast}({inner} + {factor})"
        case 2:
            return f"{cast}({inner} / {rng.choice(['2', '3', '4u', '-2'])})"
        case 3:
            return f"{cast}({inner} % {rng.choice(['4', '8u', '5', '6u'])})"
        case 4:
            return f"{cast}({inner} & {rng.choice(['7', '0xff', '0xfff0', '~3', '12u'])})"
        case 5:
            return f"{cast}({inner} >> {rng.choice(['1', '3', '28'])})"
        case _:
            return f"{cast}({inner} {rng.choice('+-')} {_term(rng, names, depth - 1)})"


def random_wrapping(rng: random.Random) -> str:
    """Draw a C file; its function is called `kernel`."""
    names = ["i", "j"]
    lines = ["for (int i = 0; i < 20; i++)"]
    match rng.randrange(4):
        case 0:
            lines.append(f"for (int j = 0; j < (({_term(rng, ['i'], 2)}) & 7); j++)")
        case 1:
            kind = rng.choice(["unsigned", "unsigned char", "short", "signed char"])
            test = f"j {rng.choice(['!=', '<'])} {rng.randint(0, 9)}"
            lines.append(f"for ({kind} j = {rng.choice(['i', 'i - 3', '250', '0', '2'])}; {test}; j++)")
        case _:
            lines.append("for (int j = 0; j < 6; j++)")
    if rng.random() < 0.7:
        sign = rng.choice(["<", ">=", "==", "!=", ">"])
        right = rng.choice([str(rng.randint(-3, 20)), f"{rng.randint(0, 9)}u", _term(rng, names, 1)])
        lines.append(f"if ({_term(rng, names, 2)} {sign} {right})")
    place = rng.choice(["i", f"({_term(rng, names, 2)}) & 31", f"({_term(rng, names, 2)}) % 32u"])
    lines.append(f"o[{place}] += p[({_term(rng, names, 1)}) & 31] + {_term(rng, names, 2)};")
    return "void kernel(int o[32], const int p[32])\n{\n  " + "\n  ".join(lines) + "\n}\n"
