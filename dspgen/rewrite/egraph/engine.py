"""egglog, with rules and terms. The only module that knows it, and it is loaded on first use.

Commands cost much more than what they do, so the terms of a region and the facts about them come as one table: a row
has a term's number, its constructor and its columns, operands by number; a rule for each constructor makes terms of
rows whose operands are there. See `rule_text` for constructors.
"""

from __future__ import annotations

import importlib.util
import tempfile
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import PathFinder
from typing import Any

from dspgen.rewrite.egraph.rule_text import RULESET, Head, declaration, head_of
from dspgen.rewrite.graph.enodes import Node
from dspgen.rewrite.graph.patterns import INTEGER_LAST, RELATIONS, SHUFFLES

TERM = "term_number"
_GIVEN = "dspgen_given"
_NARROWEST = 8  # integer columns of a row
_ENGINES_KEPT = 32  # of some 1.3 MB


@dataclass(frozen=True, slots=True)
class Fact:
    """A relation among terms of the graph, by number, and integers; "same" is that two terms are equal."""

    relation: str
    nodes: tuple[int, ...]
    integers: tuple[int, ...] = ()


class Engine:
    """One egglog e-graph with its rules, kept for the next region that needs the same ones."""

    def __init__(self, lines: Iterable[str], heads: Iterable[Head]) -> None:
        self.graph = _bindings().EGraph()
        self.heads: set[Head] = set()
        self.tables: set[int] = set()  # by their widths
        self.readers: set[tuple[Head | str, int]] = set()
        self.run("(sort Term)")
        self.run(f"(ruleset {RULESET})")
        self.run(f"(ruleset {_GIVEN})")
        self.run(f"(function {TERM} (i64) Term :no-merge)")
        for name, arity in RELATIONS.items():
            columns = ["Term"] * (arity - 1) + ["i64" if name in INTEGER_LAST else "Term"]
            self.run(f"(relation fact_{name} ({' '.join(columns)}))")
        for head in heads:
            self.declare(head)
        for line in dict.fromkeys(lines):  # egglog refuses a rule twice
            self.run(line)

    def run(self, line: str) -> list[Any]:
        """What the command answers. Long programs would parse in quadratic time."""
        return self.graph.run_program(*self.graph.parse_program(line))  # type: ignore[no-any-return]

    def declare(self, head: Head) -> None:
        if head not in self.heads:
            self.heads.add(head)
            self.run(declaration(head))

    def prepare(self, nodes: Sequence[Node], facts: Sequence[Fact]) -> int:
        """Whatever `add` needs for these; the width of the table that takes them."""
        heads = dict.fromkeys(head_of(n) for n in nodes)
        width = _NARROWEST
        while width < max((_columns(h) for h in heads), default=0):
            width *= 2
        if width not in self.tables:
            self.tables.add(width)
            self.run(f"(relation given_{width} (i64 String String {' '.join(['i64'] * width)}))")
        for head in heads:
            self.declare(head)
            if (head, width) not in self.readers:
                self.readers.add((head, width))
                self.run(_reader(head, width))
        for relation in dict.fromkeys(f.relation for f in facts):
            if (relation, width) not in self.readers:
                self.readers.add((relation, width))
                self.run(_fact_reader(relation, width))
        return width

    def add(self, nodes: Sequence[Node], facts: Sequence[Fact], width: int) -> None:
        """The terms, each under its number, and the facts."""
        rows = [(number, head_of(n).name, *_row(n)) for number, n in enumerate(nodes)]
        rows += [(~k, f"fact_{f.relation}", "", [*f.nodes, *f.integers]) for k, f in enumerate(facts)]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="dspgen-terms-") as file:
            for number, name, text, columns in rows:
                padded = [*columns, *[0] * (width - len(columns))]
                file.write("\t".join(map(str, (number, name, text, *padded))) + "\n")
            file.flush()
            self.run(f'(input given_{width} "{file.name}")')
        self.run(f"(run-schedule (saturate (run {_GIVEN})))")

    def size(self) -> int:
        """How many nodes there are."""
        names = {h.name for h in self.heads}
        return sum(count for name, count in self.run("(print-size)")[0].sizes if name in names)


@lru_cache(maxsize=1)
def _bindings() -> Any:
    """egglog's compiled part: the rest of the package, which importing it by its name would run, takes much longer."""
    package = importlib.util.find_spec("egglog")
    if package is None:
        raise ModuleNotFoundError("No module named 'egglog'", name="egglog")
    spec = PathFinder.find_spec("egglog.bindings", package.submodule_search_locations)
    assert spec is not None and spec.loader is not None
    bindings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bindings)
    return bindings


_local = threading.local()


def engine_of(lines: tuple[str, ...], heads: tuple[Head, ...]) -> Engine:
    """The engine for these rules. An egglog e-graph belongs to the thread that made it."""
    kept: dict[tuple[tuple[str, ...], tuple[Head, ...]], Engine] | None = getattr(_local, "engines", None)
    if kept is None:
        kept = _local.engines = {}
    key = (lines, heads)
    if key not in kept:
        while len(kept) >= _ENGINES_KEPT:
            del kept[next(iter(kept))]
        kept[key] = Engine(lines, heads)
    return kept[key]


# -- rows, and the rules that read them


def _columns(head: Head) -> int:
    return 1 + head.imm + head.arity


def _row(node: Node) -> tuple[str, list[int]]:
    """The text and the integers of a term's row: its side, what is known of it, its operands."""
    side = int(node.vector)
    match node.kind:
        case "const" | "vec" | "var":
            return node.text, [side]
        case "ld" | "ld_pair":
            levels = [node.period, node.jump] if node.period else []
            return "", [side, node.memory, node.constant, node.stride, *levels, *node.args]
    if node.op in SHUFFLES:
        return ",".join(map(str, node.imm)), [side, *node.args]
    return "", [side, *node.imm, *node.args]


def _reader(head: Head, width: int) -> str:
    text = head.kind in ("leaf", "shuffle")
    integers = [f"?c{k}" for k in range(1 + head.imm)]
    operands = [f"?t{k}" for k in range(head.arity)]
    made = [integers[0], *(["?text"] if text else []), *integers[1:], *operands]
    row = _pattern("?n", head.name, [*integers, *(f"?n{k}" for k in range(head.arity))], width, text="?text")
    terms = [f"(= {t} ({TERM} ?n{k}))" for k, t in enumerate(operands)]
    return f"(rule ({' '.join([row, *terms])}) ((set ({TERM} ?n) ({head.name} {' '.join(made)}))) :ruleset {_GIVEN})"


def _fact_reader(relation: str, width: int) -> str:
    arity = 2 if relation == "same" else RELATIONS[relation]
    row = _pattern("_", f"fact_{relation}", [f"?n{k}" for k in range(arity)], width)
    last = [f"?n{arity - 1}"] if relation in INTEGER_LAST else []
    operands = [f"?t{k}" for k in range(arity - len(last))]
    terms = [f"(= {t} ({TERM} ?n{k}))" for k, t in enumerate(operands)]
    action = "union" if relation == "same" else f"fact_{relation}"
    return f"(rule ({' '.join([row, *terms])}) (({action} {' '.join(operands + last)})) :ruleset {_GIVEN})"


def _pattern(number: str, name: str, columns: Sequence[str], width: int, text: str = "_") -> str:
    padded = [*columns, *["_"] * (width - len(columns))]
    return f'(given_{width} {number} "{name}" {text} {" ".join(padded)})'
