"""The C file of a random program, and a driver that runs it in a sanitizer."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tests.generators.program_intervals import Undefined
from tests.generators.program_ranges import Ranges, ranges
from tests.generators.program_tree import (
    FLOATS,
    Array,
    Local,
    Program,
    Writer,
    expr_text,
    is_real,
    number_text,
    walk_tree,
)


@dataclass(frozen=True, slots=True)
class Source:
    """A program as text: `name` is its function's, and the inputs that matter stand in its first comment."""

    program: Program
    ranges: Ranges
    text: str


def source(program: Program) -> Source:
    """Raises Undefined for a program that isn't defined."""
    found = ranges(program)
    used = {name for node in walk_tree(program.body) for name in _names(node)}
    used |= {name for a in program.arrays if a.name in used for name in a.symbols if name}
    arrays = [a for a in program.arrays if a.name in used]
    if not program.result and all(a.role != "out" for a in arrays):
        raise Undefined("no results")
    writer = Writer(found.origins, {a.name: a for a in arrays})
    numbers = [n for n in program.numbers if n.name in used]
    shown = [f"@input {n.name} expr {n.value}" for n in numbers if n.value is not None]
    shown += [_contents(a, found) for a in arrays if a.contents is not None and a.role != "table"]
    lines = ["/* " + "\n   ".join(["Random.", *shown]) + " */", "#include <math.h>", "#include <stdlib.h>"]
    lines += [_table(a, found) for a in arrays if a.role == "table"]
    for helper in program.helpers:
        if helper.name in used:
            given = ", ".join(f"{type_} {name}" for type_, name in helper.params)
            lines += [f"static {helper.type} {helper.name}({given})", "{"]
            lines += [f"  return {expr_text(helper.value, {})};", "}"]
    parameters = [f"{n.type} {n.name}" for n in numbers] + [_parameter(a, program, found) for a in arrays if _passed(a)]
    local = next((n for n in program.body if isinstance(n, Local) and n.name == program.result), None)
    if program.result and local is None:
        raise Undefined("no result")
    lines += [f"{local.type if local else 'void'} {program.name}({', '.join(parameters) or 'void'})", "{"]
    for array in arrays:
        if array.role == "local":
            lines.append(f"  {array.type} {array.name}{_constant_extents(array, found)} = {{0}};")
    lines += writer.block(program.body, "  ")
    if program.result:
        lines.append(f"  return {program.result};")
    return Source(program, found, "\n".join([*lines, "}"]) + "\n")


def _names(node: object) -> list[str]:
    return [text for key in ("name", "array", "pointer") if isinstance(text := getattr(node, key, None), str)]


def _passed(array: Array) -> bool:
    return array.role in ("in", "out")


def _constant_extents(array: Array, found: Ranges) -> str:
    return "".join(f"[{e}]" for e in found.extents[array.name])


def _parameter(array: Array, program: Program, found: Ranges) -> str:
    const = "const " if array.role == "in" else ""
    values = {n.name: n.value or 0 for n in program.numbers}
    texts = []
    for axis, extent in enumerate(found.extents[array.name]):
        symbol = array.symbols[axis] if axis < len(array.symbols) else ""
        more = extent - values.get(symbol, 0)
        if not symbol or symbol not in values:
            texts.append(f"[{extent}]")
        else:
            texts.append(f"[{symbol}{f' {chr(43) if more > 0 else chr(45)} {abs(more)}' if more else ''}]")
    if array.pointer and array.rank == 1:
        return f"{const}{array.type} *{array.name}"
    if array.pointer:
        texts[0] = "[]"
    return f"{const}{array.type} {array.name}{''.join(texts)}"


def _formula(array: Array, found: Ranges) -> tuple[int, int, int]:
    """The contents by subscripts as they stand in the text."""
    factor, first, modulus = array.contents or (0, 0, 0)
    return factor, first + factor * found.origins[array.name][0], modulus


def _contents(array: Array, found: Ranges) -> str:
    factor, first, modulus = _formula(array, found)
    text = f"{factor} * arange({found.extents[array.name][0]}) + {first}"
    return f"@input {array.name} expr {f'({text}) % {modulus}' if modulus else text}"


def elements(array: Array, found: Ranges) -> list[int]:
    factor, first, modulus = _formula(array, found)
    plain = [factor * k + first for k in range(found.extents[array.name][0])]
    return [n % modulus for n in plain] if modulus else plain


def _table(array: Array, found: Ranges) -> str:
    modulus = (array.contents or (0, 0, 1))[2]
    values = elements(array, found)
    texts = [number_text((2 * n - modulus) / (2 * modulus) if is_real(array.type) else n, array.type) for n in values]
    return f"static const {array.type} {array.name}[{len(values)}] = {{{', '.join(texts)}}};"


# A program that runs them all, for sanitizers


def driver(sources: list[Source]) -> str:
    """C text that calls every program, each under a name of its own, with arrays exactly as large as declared."""
    lines = ["#include <math.h>", "#include <stdio.h>", "#include <stdlib.h>", "#include <string.h>"]
    for number, one in enumerate(sources):
        own = {one.program.name, *(h.name for h in one.program.helpers)}
        own |= {a.name for a in one.program.arrays if a.role == "table"}
        text = one.text
        for name in sorted(own):
            text = re.sub(rf"\b{name}\b", f"{name}_{number}", text)
        lines.append(text)
    lines += ["int main(void)", "{", "  unsigned s = 1;"]
    for number, one in enumerate(sources):
        lines += _called(one, number)
    return "\n".join([*lines, "  return 0;", "}"]) + "\n"


def _called(one: Source, number: int) -> list[str]:
    text = one.text.split(f"{one.program.name}(", 1)[1].split("\n{", 1)[0]
    used = set(re.findall(r"\w+", text))
    lines, arguments = [f'  printf("%s\\n", "{number}"); fflush(stdout); {{'], []
    for scalar in one.program.numbers:
        if scalar.name in used:
            known = scalar.value
            arguments.append(str(known) if known is not None else "0.5" if scalar.type in FLOATS else "77")
    for array in one.program.arrays:
        if array.name not in used or not _passed(array):
            continue
        size = math.prod(one.ranges.extents[array.name])
        lines.append(f"    {array.type} *{array.name} = malloc({size} * sizeof(*{array.name}));")
        if array.contents is not None:
            values = ", ".join(map(str, elements(array, one.ranges)))
            lines.append(f"    const {array.type} {array.name}_v[] = {{{values}}};")
            lines.append(f"    memcpy({array.name}, {array.name}_v, sizeof({array.name}_v));")
        else:
            draw = "(int)(s >> 16) % 1000 / 1000.0" if array.type in FLOATS else f"({array.type})(s >> 8)"
            step = "s = s * 1664525u + 1013904223u"
            lines.append(f"    for (int k = 0; k < {size}; k++) {{ {step}; {array.name}[k] = {draw}; }}")
        cast = "" if array.rank == 1 else "(void *)"
        arguments.append(f"{cast}{array.name}")
    lines.append(f"    {one.program.name}_{number}({', '.join(arguments)});")
    lines += [f"    free({a});" for a in (x.removeprefix("(void *)") for x in arguments) if a.isidentifier()]
    return [*lines, "  }"]
