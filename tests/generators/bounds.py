"""Random C nests whose loops begin and end at minima, maxima and quotients of the loops around them."""

from __future__ import annotations

import random

_SIDE = 11  # of the arrays; subscripts are brought into them by their loops


def random_bounds(rng: random.Random) -> str:
    """Draw a C file; its function is called `kernel`."""
    size, depth = rng.randint(3, 9), rng.choice([2, 2, 3])
    names = ["y", "x", "r"][:depth]
    lines, indent = [f"  for (int y = 0; y < {size}; y++)"], "    "
    for k in range(1, depth):
        low, high = _bound(rng, names[:k], "max"), _bound(rng, names[:k], "min")
        step = rng.choice(["++", "++", "++", " += 2", " += 3"])
        limit = f"for (int {names[k]} = _max({low}, 0); {names[k]} < _min({high}, {_SIDE}); {names[k]}{step})"
        lines.append(f"{indent}{limit}")
        indent += "  "
    if rng.random() < 0.4:
        other = rng.choice(names)
        divisor = rng.choice([2, 3, 4])
        lines.append(f"{indent}if (({names[-1]} + {other} + {rng.randint(0, 3)}) % {divisor} == {rng.randint(0, 1)})")
        indent += "  "
    lines.append(indent + _statement(rng, names))
    return (
        "static inline int _min(int a, int b) { return a < b ? a : b; }\n"
        "static inline int _max(int a, int b) { return a > b ? a : b; }\n"
        f"void kernel(const int a[{_SIDE}][{_SIDE}], int o[{_SIDE}][{_SIDE}])\n{{\n" + "\n".join(lines) + "\n}\n"
    )


def _statement(rng: random.Random, names: list[str]) -> str:
    y, x, r = "y", names[1], names[-1]
    match rng.randrange(3):
        case 0:
            return f"o[{y}][{x}] += a[{y}][{r}];"
        case 1:
            return f"o[{y}][{r}] = a[{r}][{x}] + {y};"
        case _:
            return f"o[{x}][{r}] += a[{y}][{r} / 2];"


def _bound(rng: random.Random, names: list[str], operator: str) -> str:
    """Draw the maximum (minimum) of parts, or a part."""
    parts = [_part(rng, names) for _ in range(rng.choice([1, 2, 2, 3]))]
    if rng.random() < 0.2:
        operator = "min" if operator == "max" else "max"
    found = parts[0]
    for part in parts[1:]:
        found = f"_{operator}({found}, {part})"
    return found if rng.random() < 0.9 else f"({found}) / 2"


def _part(rng: random.Random, names: list[str]) -> str:
    inner = f"({rng.choice(names)} + {rng.randint(0, 3)})"
    if len(names) > 1 and rng.random() < 0.3:
        inner = f"({inner} {rng.choice('+-')} {rng.choice(names)})"
    scaled = rng.choice(["{} / 2", "{} / 3", "({} >> 1)", "{}", "{}", "2 * {}", "7 - {}", "{} % 4", "({} & 3)"])
    return f"{scaled.format(inner)} {rng.choice('+-')} {rng.randint(0, 6)}"
