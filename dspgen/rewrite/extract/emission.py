"""A choice of nodes as statements: each value is computed once, where it is first needed.

What is used more than once becomes a Let; so do both halves of a pair, together, and a load whose elements a store
overwrites before its first use. Chains are cut by Lets as well, so that no term is deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from dspgen.rewrite.graph.enodes import LOADS, Node
from dspgen.rewrite.graph.patterns import FLOATS, argument_elems
from dspgen.rewrite.graph.region import Built, Writes, reads
from dspgen.vecdsl.ir.program import Address, Const, Elem, Let, Load, Op, Store, Term, Var, VType

_DEEPEST = 40


class Unplaceable(Exception):
    """A chosen load belongs to a later state of memory than the place that needs it."""


@dataclass(slots=True)
class Names:
    """Fresh names: `prefix` and a number, unlike any in use."""

    used: set[str]
    prefix: str = "t"
    count: int = 0

    def fresh(self) -> str:
        while True:
            name = f"{self.prefix}{self.count}"
            self.count += 1
            if name not in self.used:
                self.used.add(name)
                return name


@dataclass(slots=True)
class _Emitter:
    built: Built
    chosen: Mapping[int, Node]
    types: Mapping[int, VType]
    names: Names
    out: list[Let | Store] = field(default_factory=list)
    terms: dict[int, Term] = field(default_factory=dict)
    depth: dict[int, int] = field(default_factory=dict)
    first: dict[int, int] = field(default_factory=dict)
    uses: dict[int, int] = field(default_factory=dict)
    users: dict[int, list[int]] = field(default_factory=dict)
    asked: dict[int, int] = field(default_factory=dict)  # the last position at which a root is a statement's own
    bound: set[int] = field(default_factory=set)
    early: dict[int, list[int]] = field(default_factory=dict)
    parted: set[int] = field(default_factory=set)

    # -- what is used where

    def count(self, roots: list[tuple[int, int]]) -> None:
        for position, root in roots:
            self.uses[root] = self.uses.get(root, 0) + 1
            self.asked[root] = max(position, self.asked.get(root, 0))
            stack = [root]
            while stack:
                number = stack.pop()
                if number in self.first:
                    continue
                self.first[number] = position
                node = self.chosen[number]
                for arg in node.args:
                    self.uses[arg] = self.uses.get(arg, 0) + 1
                    users = self.users.setdefault(arg, [])
                    if number not in users:
                        users.append(number)
                stack.extend(reversed(node.args))

    def decide(self) -> None:
        for number, times in self.uses.items():
            if times > 1:
                self.bind(number)
        for number in self.first:
            if self.chosen[number].pair and len(self.users.get(number, ())) > 1:
                self._bind_users(number)
        built = self.built
        writes = Writes(built.region, built.lanes)
        read = reads(built.graph.memories, built.lanes)
        end = len(built.region.stmts)
        deadlines: dict[int, int] = {}
        order = self._users_first()
        for number in order:
            node = self.chosen[number]
            if node.kind in LOADS:
                memory, touched = read(node)
                if self.first[number] < memory.version:
                    raise Unplaceable
                deadline = deadlines[number] = writes.deadline(memory, touched, end)
                if deadline < self.first[number]:
                    self.first[number] = deadline
                    self.early.setdefault(deadline, []).append(number)
                    if node.pair:
                        self._bind_users(number)
                    else:
                        self.bind(number)
            for arg in node.args:
                self.first[arg] = min(self.first[arg], self.first[number])
        self._part(order, deadlines, end)

    def _part(self, order: list[int], deadlines: Mapping[int, int], end: int) -> None:
        """The pairs whose halves get names: each user computes a pair anew, and for one of them it is too late. Users
        are also statements whose root it is."""
        limits: dict[int, int] = {}
        for number in reversed(order):
            given = (limits[a] for a in self.chosen[number].args if a not in self.bound)
            limits[number] = min((deadlines.get(number, end), *given))
        last: dict[int, int] = {}
        for number in order:
            users = self.users.get(number, ())
            places = (last[u] if self.chosen[u].pair else self.first[u] for u in users)
            last[number] = max((self.first[number], self.asked.get(number, 0), *places))
            whole = number in self.asked or any(self.chosen[u].op not in ("lo", "hi") for u in users)
            apart = self.chosen[number].pair and whole
            if apart and last[number] > limits[number]:
                self.parted.add(number)

    def _users_first(self) -> list[int]:
        """The used classes, each after all that use it."""
        order: list[int] = []
        waiting = {number: len(self.users.get(number, ())) for number in self.first}
        ready = [number for number, users in waiting.items() if not users]
        while ready:
            order.append(number := ready.pop())
            for arg in dict.fromkeys(self.chosen[number].args):
                waiting[arg] -= 1
                if not waiting[arg]:
                    ready.append(arg)
        return order

    def bind(self, number: int) -> None:
        node = self.chosen[number]
        if node.kind not in ("const", "vec", "var") and not node.pair:
            self.bound.add(number)

    def _bind_users(self, pair: int) -> None:
        for user in self.users.get(pair, ()):
            if self.chosen[user].pair:
                self._bind_users(user)
            else:
                self.bind(user)

    # -- terms

    def need(self, root: int, name: str | None = None) -> Term:
        """The root's term, after Lets for what it needs; a bound root gets `name`, if that is given."""
        stack = [root]
        while stack:
            number = stack[-1]
            if number in self.terms:
                stack.pop()
                continue
            missing = [a for a in self.chosen[number].args if a not in self.terms]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self._finish(number, name if number == root else None)
        return self.terms[root]

    def _finish(self, number: int, name: str | None) -> None:
        """Make the term; the bound users of a pair are made with it, so that the pair is computed in one place."""
        if number in self.terms:
            return
        node = self.chosen[number]
        term = self._make(number)
        depth = 1 + max((self.depth.get(a, 0) for a in node.args), default=0)
        if not node.pair and (number in self.bound or depth > _DEEPEST):
            label = name or self.names.fresh()
            self.out.append(Let(label, term))
            term, depth = Var(label, term.type), 0
        if number in self.parted:
            term, depth = self._named_halves(term), 0
        self.terms[number] = term
        self.depth[number] = depth
        if node.pair:
            for user in self.users.get(number, ()):
                ready = all(a in self.terms for a in self.chosen[user].args)
                if ready and (self.chosen[user].pair or user in self.bound):
                    self._finish(user, None)

    def _named_halves(self, pair: Term) -> Term:
        names = []
        for half in ("lo", "hi"):
            names.append(Var(self.names.fresh(), pair.type))
            self.out.append(Let(names[-1].name, Op(half, (pair,), pair.type)))
        return Op("pair", tuple(names), pair.type)

    def _make(self, number: int) -> Term:
        node = self.chosen[number]
        match node.kind:
            case "const":
                value = float(node.text) if node.elem in FLOATS else int(node.text)
                return Const(value, node.type)
            case "vec":
                single = VType(node.elem, False)
                lanes = (float(t) if node.elem in FLOATS else int(t) for t in node.text.split())
                return Op("vec", tuple(Const(v, single) for v in lanes), node.type)
            case "var":
                return Var(node.text, node.type)
            case "ld":
                return self._load(node)
            case "ld_pair":
                return Op("ld_pair", (self._load(node),), node.type)
            case "op":
                if node.op in ("lo", "hi") and node.args[0] in self.parted:
                    return cast(Op, self.terms[node.args[0]]).args[node.op == "hi"]
                wanted = argument_elems(node.op, node.elem, len(node.args))
                args = tuple(_as(self.terms[a], e) for a, e in zip(node.args, wanted, strict=True))
                return _as(_folded(Op(node.op, args, node.type, node.imm)), self.types[number].elem)

    def _load(self, node: Node) -> Load:
        memory = self.built.graph.memories[node.memory]
        stride = node.stride if node.vector else self.built.scalar_stride
        args = [_as(self.terms[a], "i32") for a in node.args]
        mask = args.pop() if node.masked else None
        index = args.pop() if node.indexed else None
        address = Address(node.constant, memory.terms)
        return Load(memory.array, address, stride, memory.elem, node.type, node.period, node.jump, index, mask)


def emit(
    built: Built, of_node: tuple[int, ...], chosen: Mapping[int, Node], types: Mapping[int, VType], names: Names
) -> tuple[tuple[Let | Store, ...], tuple[Term, ...]]:
    """The region's statements and end terms, computed by the chosen nodes. Raises Unplaceable."""
    emitter = _Emitter(built, chosen, types, names)
    emitter.count([(r.position, of_node[r.node]) for r in built.roots])
    emitter.decide()
    roots = iter(built.roots)
    stmts = built.region.stmts
    for position, stmt in enumerate(stmts):
        for number in emitter.early.get(position, ()):
            emitter.need(number)
        match stmt:
            case Let(name) if name in built.region.kept:
                number = of_node[next(roots).node]
                term = emitter.need(number, name)
                if not (isinstance(term, Var) and term.name == name):
                    emitter.out.append(Let(name, term))
                    if not isinstance(term, Const | Var):
                        emitter.terms[number] = Var(name, term.type)
                        emitter.depth[number] = 0
            case Let():
                pass
            case Store():
                value = emitter.need(of_node[next(roots).node])
                index = None if stmt.index is None else emitter.need(of_node[next(roots).node])
                mask = None if stmt.mask is None else emitter.need(of_node[next(roots).node])
                emitter.out.append(replace(stmt, value=value, index=index, mask=mask))
    for number in emitter.early.get(len(stmts), ()):
        emitter.need(number)
    ends = tuple(emitter.need(of_node[r.node]) for r in roots)
    return tuple(emitter.out), ends


def _as(term: Term, elem: str) -> Term:
    """The same bits as another type: rules may treat a float's bits as an integer's."""
    if term.type.elem == elem or (term.type.elem in FLOATS) == (elem in FLOATS):
        return term
    return Op("mov", (term,), VType(cast(Elem, elem), term.type.vector))


_FOLDS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _folded(op: Op) -> Term:
    """A constant, where the operands are 32-bit integers that are constants; a negated float constant likewise."""
    if not op.args or not all(isinstance(a, Const) for a in op.args):
        return op
    values = [a.value for a in op.args if isinstance(a, Const)]
    if op.name == "neg" and op.type.elem in FLOATS:
        return Const(-float(values[0]), op.type)
    if op.type.elem != "i32" or op.name not in _FOLDS or any(a.type.elem != "i32" for a in op.args):
        return op
    result = cast(int, _FOLDS[op.name](int(values[0]), int(values[1]))) & 0xFFFFFFFF
    return Const(result - ((result & 0x80000000) << 1), op.type)
