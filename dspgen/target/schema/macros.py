"""The ISA file's tables of macros and rewrite rows; see `dspgen.target.schema.tables`."""

from __future__ import annotations

from dataclasses import dataclass, field

from dspgen.target.schema.kinds import Figure, Sourced, Words


@dataclass(frozen=True, slots=True)
class Repeat:
    """Lines repeated for each value of an index.

    index: the word that stands for the index in the lines, in braces.
    end: the value at which it stops, not included.
    lines: the lines, in order.
    first: its first value.
    """

    index: str
    end: Figure
    lines: Words
    first: Figure = Figure(0)


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines for each joint of a balanced tree over places: `{left}` and `{right}` are joined into `{left}`.

    count: how many places there are, numbered from 0.
    lines: the lines of a joint.
    """

    count: Figure
    lines: Words


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a macro's body, a repetition of lines, or a tree of them. A text is short for `{ text = ... }`.

    text: the line: assembly, with `{name}` for operands, temporaries and immediates; `{name.lo}` is a pair's low half.
    repeat: lines repeated.
    fold: lines for each joint of a tree.
    """

    text: str = ""
    repeat: Repeat | None = None
    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class Macro(Sourced):
    """An operation done by a fixed sequence of instructions, run alone from start to end.

    implements: the operation, `OP.TYPE`, or `OP` for all types.
    result: the name of its result.
    result_class: the register class of the result.
    body: its lines, a packet each, each waiting for all earlier results.
    operands: the register classes of its operands by name, in order; `immediate` for a compile-time integer.
    temporaries: the register classes of registers that it needs besides, by name or pattern of names.
    ordered: `false`: the lines only have to keep the order that registers ask for.
    setup: lines that run once, in order, before the code that uses the macro, such as the writing of a pattern.
    packed: for vectors of this many elements in each lane only; 0: for all.
    multiple: for compile-time integers that are multiples of this only.
    pattern: for `shuffle2`: the one shuffle that it does: an expression for the source of lane `k`, of `lanes`.
    """

    implements: str
    result: str
    result_class: str
    body: tuple[Line, ...]
    operands: dict[str, str] = field(default_factory=dict)
    temporaries: dict[str, str] = field(default_factory=dict)
    ordered: bool = True
    setup: tuple[Line, ...] = ()
    packed: Figure = Figure(0)
    multiple: Figure = Figure(1)
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Tree:
    """A balanced tree of an operation of two places.

    op: the operation, as in `add.f32`.
    leaf: the term of a leaf, with `{index}`.
    count: how many leaves there are.
    index: the word that stands for a leaf's number, in braces.
    """

    op: str
    leaf: str
    count: Figure
    index: str = "k"


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rule of the machine's own: what matches `left` may be computed as `right`. Terms are of the vector language,
    see docs/rewriting.md.

    left: the term that it is for; `?x` is any term.
    right: the term that does the same.
    let: names for terms that `right` uses as `?name`, each in terms of the earlier ones.
    tree: in the place of `right`: a balanced tree of one operation.
    when: conditions, separated by commas.
    why: the reason why both are the same, for readers.
    packed: for vectors of this many elements in each lane only; 0: for all.
    """

    left: str
    right: str = ""
    let: dict[str, str] = field(default_factory=dict)
    tree: Tree | None = None
    when: str = ""
    why: str = ""
    packed: Figure = Figure(0)
