"""A loop tree as a C++ file: one entry with C linkage, and a function for each parallel nest."""

from __future__ import annotations

from dataclasses import dataclass, field

from backends.cpu.ir.context import FloatRules, Lowering, lowering
from backends.cpu.ir.names import identifier, symbol
from backends.cpu.ir.statements import (
    Accumulate,
    Cell,
    Define,
    Effect,
    Get,
    Guard,
    Index,
    Let,
    Loop,
    Note,
    Op,
    Put,
    Scalar,
    Set,
    Stmt,
    Temp,
    Value,
    Var,
    statements,
    stored,
    walk,
)
from backends.cpu.lower import lower
from backends.cpu.passes.array_contraction import contracted
from backends.cpu.passes.common_subexpressions import shared
from backends.cpu.passes.constant_folding import written_out
from backends.cpu.passes.local_placement import place_locals
from backends.cpu.passes.register_promotion import promoted, settled
from backends.cpu.prelude import prelude
from backends.cpu.text import C_TYPES, Writer, type_name
from plant_core.ir.accesses import accesses, children
from plant_core.ir.c_semantics import size_of
from plant_core.ir.func import Alloc, Buf, Expr, Free, Func, Iter, Memcpy, Param, ScalarParam, Val, Verbatim
from plant_core.ir.loop_tree import Tree
from plant_core.support.location import PlantError

_STACK_BYTES = 16 << 10
_LARGEST_ON_STACK = 256 << 10


def emit(func: Func, tree: Tree, *, fp: FloatRules = "reassoc", vector_bytes: int = 64, threads: bool = True) -> str:
    """C++17 (with the GNU vector extensions) that runs `tree`.

    The entry is `extern "C" void NAME(...)`, NAME being `names.symbol(func)`, with the Func's parameters in its order:
    arrays by pointer, scalars by value. `vector_bytes`: the width of the vectors. `threads`: whether loops tagged
    `parallel` become OpenMP's. Raises PlantError for what C++ on a CPU can't express.
    """
    small = contracted(func, tree)
    tree = written_out(place_locals(func, small.tree, small.private))
    low = lowering(func, tree, fp=fp, vector_bytes=vector_bytes, threads=threads)
    low.bufs.update(small.bufs)
    body = shared(low, settled(promoted(low, lower(low, tree))))
    program = _Program(low, Writer(low.bufs, fp == "strict"))
    return program.text(body)


# --- what a nest needs from outside -------------------------------------------------------------------------------


@dataclass(slots=True)
class _Free:
    """Names that statements use and don't declare themselves."""

    bufs: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    temps: dict[str, Temp] = field(default_factory=dict)
    everything: bool = False

    def expr(self, expr: Expr) -> None:
        if isinstance(expr, Iter | Param):
            self.names.add(expr.name)
        if isinstance(expr, Verbatim):
            self.everything = True
        for access in accesses(expr):
            self.bufs.add(access.buf)
        for child in children(expr):
            self.expr(child)

    def cell(self, cell: Cell) -> None:
        self.bufs.add(cell.buf)
        for index in cell.indices:
            self.expr(index)

    def value(self, value: Value) -> None:
        for part in walk(value):
            match part:
                case Get(cell=cell, active=active):
                    self.cell(cell)
                    if active is not None:
                        self.expr(active)
                case Index(expr=expr):
                    self.expr(expr)
                case Scalar(name=name):
                    self.names.add(name)
                case Temp(name=name):
                    self.temps[name] = part
                case Op(name=name) if name.startswith("text:"):
                    self.everything = True

    def body(self, body: tuple[Stmt, ...]) -> None:
        for stmt in statements(body):
            value = stored(stmt)
            if value is not None:
                self.value(value)
            match stmt:
                case Put(cell=cell, active=active):
                    self.cell(cell)
                    if active is not None:
                        self.expr(active)
                case Accumulate(cell=cell):
                    self.cell(cell)
                case Set(temp=temp):
                    self.temps[temp.name] = temp
                case Loop(lower=lower_, upper=upper):
                    self.expr(lower_)
                    self.expr(upper)
                case Guard(condition=condition):
                    self.expr(condition)
                case Effect(action=Memcpy(to=to, source=source)):
                    self.bufs |= {to, source}
                case Effect(action=Alloc(buf=buf) | Free(buf=buf)):
                    self.bufs.add(buf)
                case Effect(action=Verbatim()):
                    self.everything = True


@dataclass(frozen=True, slots=True)
class _Scope:
    """What is declared at a place in the text, in order."""

    bufs: tuple[str, ...] = ()
    integers: tuple[tuple[str, str], ...] = ()  # name, C type
    temps: tuple[str, ...] = ()


# --- the text -----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Program:
    low: Lowering
    writer: Writer
    nests: list[list[str]] = field(default_factory=list)

    def text(self, body: tuple[Stmt, ...]) -> str:
        func = self.low.func
        bufs = tuple(p.name for p in func.params if isinstance(p, Buf))
        scalars = tuple((p.name, C_TYPES[p.dtype]) for p in func.params if isinstance(p, ScalarParam))
        scope = _Scope(bufs, scalars)
        parameters = ", ".join(
            self._parameter(p) if isinstance(p, Buf) else f"{C_TYPES[p.dtype]} {identifier(p.name)}"
            for p in func.params
        )
        lines = [f'extern "C" void {symbol(func)}({parameters}) {{']
        lines += self._views(bufs, "    ")
        lines += self._body(body, "    ", scope)
        lines.append("}")
        whole = [f"// {func.name}, from {func.loc.file}:{func.loc.line}", *prelude(self.writer)]
        for nest in self.nests:
            whole += ["", *nest]
        return "\n".join([*whole, "", *lines]) + "\n"

    # Declarations

    def _parameter(self, buf: Buf) -> str:
        kind = f"{'const ' if buf.const else ''}{C_TYPES[buf.dtype]}"
        name = identifier(buf.name)
        rows = buf.shape[1:]
        if not buf.shape and buf.kind == "local":
            return f"{kind} &{name}"
        if not rows:
            return f"{kind} *__restrict {name}"
        if all(isinstance(n, int) for n in rows):
            return f"{kind} (*__restrict {name}){''.join(f'[{n}]' for n in rows)}"
        return f"{kind} *__restrict plant_{name}"

    def _views(self, bufs: tuple[str, ...], indent: str) -> list[str]:
        """Arrays whose rows have symbolic lengths, as what they are."""
        lines = []
        for buf in (self.low.bufs[name] for name in bufs):
            if any(not isinstance(n, int) for n in buf.shape[1:]):
                kind = f"{'const ' if buf.const else ''}{C_TYPES[buf.dtype]}"
                name = identifier(buf.name)
                rows = self._rows(buf)
                # With `auto`: clang takes two types of one array of variable length for different ones.
                lines.append(f"{indent}auto {name} = ({kind} (*){rows})plant_{name};")
        return lines

    def _rows(self, buf: Buf) -> str:
        return "".join(f"[{n if isinstance(n, int) else self.writer.index(n)}]" for n in buf.shape[1:])

    def _argument(self, buf: Buf) -> str:
        name = identifier(buf.name)
        if any(not isinstance(n, int) for n in buf.shape[1:]):
            const = "const " if buf.const else ""
            return f"({const}{C_TYPES[buf.dtype]} *){name}"
        return name

    def _alloc(self, name: str, indent: str) -> tuple[list[str], bool]:
        """The declaration of a local array, and whether it is to be freed."""
        buf = self.low.bufs[name]
        kind, own = C_TYPES[buf.dtype], identifier(name)
        if buf.location.startswith("gpu"):
            raise PlantError(
                f"'{name}' is in {buf.location}, which a CPU doesn't have",
                loc=buf.loc,
                code="DG603",
                remedy="place it on the stack or the heap",
            )
        if not buf.shape:
            return [f"{indent}{kind} {own};"], False
        fixed = [n for n in buf.shape if isinstance(n, int)]
        if len(fixed) == len(buf.shape):
            size = size_of(buf.dtype)
            for n in fixed:
                size *= n
            if size <= (_LARGEST_ON_STACK if buf.location == "stack" else _STACK_BYTES):
                extents = "".join(f"[{max(n, 1)}]" for n in fixed)
                return [f"{indent}alignas({max(buf.align, 64)}) {kind} {own}{extents};"], False
        self.writer.helpers.add("allocate")
        rows = self._rows(buf)
        view = f"auto {own} = ({kind} (*){rows})" if rows else f"{kind} *{own} = ({kind} *)"
        return [f"{indent}{view}allocate({self._bytes(buf)});"], True

    def _bytes(self, buf: Buf) -> str:
        extents = " * ".join(str(n) if isinstance(n, int) else f"(long)({self.writer.index(n)})" for n in buf.shape)
        return f"{extents or 1} * (long)sizeof({C_TYPES[buf.dtype]})"

    # Statements

    def _body(self, body: tuple[Stmt, ...], indent: str, scope: _Scope) -> list[str]:
        lines: list[str] = []
        heap: list[str] = []
        for stmt in body:
            match stmt:
                case Effect(action=Alloc(buf=buf)):
                    text, freed = self._alloc(buf, indent)
                    lines += text
                    heap += [buf] if freed else []
                    scope = _Scope((*scope.bufs, buf), scope.integers, scope.temps)
                case Effect(action=Free(buf=buf)):
                    if buf in heap:
                        heap.remove(buf)
                        lines.append(f"{indent}free({identifier(buf)});")
                case Define(name=name, value=value):
                    lines.append(
                        f"{indent}const {C_TYPES[value.dtype]} {identifier(name)} = {self.writer.value(value)};"
                    )
                    scope = _Scope(scope.bufs, (*scope.integers, (name, C_TYPES[value.dtype])), scope.temps)
                case Let(temp=temp) | Var(temp=temp):
                    lines += self._simple(stmt, indent)
                    scope = _Scope(scope.bufs, scope.integers, (*scope.temps, temp.name))
                case _:
                    lines += self._stmt(stmt, indent, scope)
        return lines + [f"{indent}free({identifier(name)});" for name in heap]

    def _stmt(self, stmt: Stmt, indent: str, scope: _Scope) -> list[str]:
        match stmt:
            case Loop(kind="parallel"):
                return self._parallel(stmt, indent, scope)
            case Loop():
                return self._loop(stmt, indent, scope)
            case Guard(condition=condition):
                head = "{" if isinstance(condition, Val) and condition.value else None
                head = head or f"if ({self.writer.condition(condition)}) {{"
                return [indent + head, *self._body(stmt.body, indent + "    ", scope), indent + "}"]
            case Note(text=text):
                return [f"{indent}// {text}"]
            case Effect(action=Memcpy(to=to, source=source)):
                return [self._copy(to, source, indent)]
            case Effect(action=Verbatim(text=text)):
                return [f"{indent}{text}" if text.rstrip().endswith((";", "}")) else f"{indent}{text};"]
            case _:
                return self._simple(stmt, indent)

    def _copy(self, to: str, source: str, indent: str) -> str:
        texts = []
        for name in (to, source):
            buf = self.low.bufs[name]
            if buf.location.startswith("gpu"):
                raise PlantError(f"'{name}' is in {buf.location}, which a CPU doesn't have", loc=buf.loc, code="DG603")
            local_scalar = not buf.shape and buf.kind == "local"
            texts.append(f"&{identifier(name)}" if local_scalar else identifier(name))
        size = self._bytes(self.low.bufs[source])
        return f"{indent}__builtin_memcpy({texts[0]}, {texts[1]}, {size});"

    def _simple(self, stmt: Stmt, indent: str) -> list[str]:
        write = self.writer
        match stmt:
            case Put(cell=cell, value=value, active=active) if active is not None:
                write.helpers.add(f"store_first:{value.dtype}:{value.lanes}")
                return [f"{indent}store_first({write.address(cell)}, {write.value(value)}, {write.index(active)});"]
            case Put(cell=cell, value=value) if value.lanes > 1:
                write.helpers.add("store")
                return [f"{indent}store({write.address(cell)}, {write.value(value)});"]
            case Put(cell=cell, value=value):
                return [f"{indent}{self._assign(write.cell(cell), Get(cell, value.dtype, 1), value)};"]
            case Let(temp=temp, value=value):
                return [f"{indent}const {self._type(temp)} {temp.name} = {write.value(value)};"]
            case Var(temp=temp, value=value):
                return [f"{indent}{self._type(temp)} {temp.name} = {write.value(value)};"]
            case Set(temp=temp, value=value):
                return [f"{indent}{self._assign(temp.name, temp, value)};"]
            case Accumulate():
                raise PlantError("a reduction was left in the program", code="DG699")
            case _:
                raise PlantError(f"a statement was left in the program: {type(stmt).__name__}", code="DG699")

    def _type(self, temp: Temp) -> str:
        if temp.lanes > 1:
            self.writer.vectors.add((temp.dtype, temp.lanes))
        return type_name(temp.dtype, temp.lanes)

    def _assign(self, text: str, own: Value, value: Value) -> str:
        match value:
            case Op(name="add" | "sub" | "mul" as name, args=(left, right), dtype=dtype) if left == own and (
                dtype not in ("i8", "i16", "u8", "u16")
            ):
                sign = {"add": "+", "sub": "-", "mul": "*"}[name]
                return f"{text} {sign}= {self.writer.operand(right)}"
            case _:
                return f"{text} = {self.writer.value(value)}"

    def _loop(self, loop: Loop, indent: str, scope: _Scope) -> list[str]:
        lines = []
        if loop.kind == "simd":
            clauses = "".join(f" reduction({_CLAUSES[op]} : {name})" for op, name in loop.reductions)
            lines.append(f"{indent}#pragma omp simd{clauses}")
        elif loop.unroll:
            lines.append(f"{indent}#pragma GCC unroll {loop.unroll}")
        lines.append(f"{indent}{self._head(loop)}")
        inner = _Scope(scope.bufs, (*scope.integers, (loop.iterator, "long")), scope.temps)
        return [*lines, *self._body(loop.body, indent + "    ", inner), indent + "}"]

    def _head(self, loop: Loop) -> str:
        name = identifier(loop.iterator)
        advance = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
        lower, upper = self.writer.index(loop.lower), self.writer.index(loop.upper)
        return f"for (long {name} = {lower}; {name} < {upper}; {advance}) {{"

    def _parallel(self, loop: Loop, indent: str, scope: _Scope) -> list[str]:
        """The call of a function of its own: pointers captured by a parallel region lose their `restrict`."""
        used = _Free()
        used.body((loop,))
        bufs = tuple(b for b in scope.bufs if used.everything or b in used.bufs)
        for buf in (self.low.bufs[b] for b in bufs):
            for extent in buf.shape:
                if not isinstance(extent, int):
                    used.expr(extent)
        names = {n: t for n, t in scope.integers if used.everything or n in used.names}
        temps = [used.temps[t] for t in scope.temps if t in used.temps]
        parameters = [self._parameter(self.low.bufs[b]) for b in bufs]
        parameters += [f"{kind} {identifier(name)}" for name, kind in names.items()]
        parameters += [f"{self._type(t)} {t.name}" for t in temps]
        arguments = [self._argument(self.low.bufs[b]) for b in bufs]
        arguments += [identifier(n) for n in names] + [t.name for t in temps]
        name = self.low.fresh(f"{symbol(self.low.func)}_nest")
        lines = [f"static __attribute__((noinline)) void {name}({', '.join(parameters)}) {{"]
        lines += self._views(bufs, "    ")
        lines += ["    #pragma omp for schedule(static)", f"    {self._head(loop)}"]
        inner = _Scope(bufs, (*names.items(), (loop.iterator, "long")), tuple(t.name for t in temps))
        lines += [*self._body(loop.body, "        ", inner), "    }", "}"]
        self.nests.append(lines)
        return [f"{indent}#pragma omp parallel", f"{indent}{name}({', '.join(arguments)});"]


_CLAUSES = {"add": "+", "mul": "*", "min": "min", "max": "max", "and": "&", "or": "|", "xor": "^"}
