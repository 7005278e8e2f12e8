"""What a scanned loop tree computes, over NumPy arrays: the check that a schedule keeps a program's meaning.

The tree is turned into Python source, as `plant_core.interp.func` does for a Func; values follow C exactly.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from plant_core.interp.python_codegen import HELPERS, Array, Inputs, Source, initial, scalar
from plant_core.ir import c_semantics as values
from plant_core.ir.accesses import all_bufs, children
from plant_core.ir.c_semantics import is_float
from plant_core.ir.func import Alloc, Buf, DType, Expr, Extent, Free, Func, Iter, Load, Memcpy, ScalarParam, Verbatim
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree
from plant_core.support.location import PlantError

Order = Literal["forward", "reversed", "random"]
_FREE_ORDER = frozenset({"parallel", "vectorize"})
_DEEPEST_LOOPS = 12
_BARRIER = "__syncthreads();"


def run_tree(func: Func, tree: Tree, inputs: Inputs, *, order: Order = "forward") -> dict[str, Array]:
    """The contents of every non-const array parameter after the run; `inputs` has all parameters and isn't changed.

    Local arrays start as NaN (floats) or zero (integers), at the start of the run or at their `Alloc`. `order` is the
    one in which the iterations of `parallel`, `vectorize` and GPU loops run; "random" is the same in every run. The
    lanes of an innermost `vectorize` loop run a statement together, and all read before any writes. Threads run one
    after the other, so that a barrier between their loops does nothing.
    Raises PlantError for a missing or misshapen input, an access outside its array or while that isn't allocated, an
    integer division by zero, and a barrier inside of a loop of threads.
    """
    memory = memory_after(func, tree, inputs, order=order)
    return {p.name: memory[p.name] for p in func.params if isinstance(p, Buf) and not p.const}


def memory_after(func: Func, tree: Tree, inputs: Inputs, *, order: Order = "forward") -> dict[str, Any]:
    """As `run_tree`, with the final contents of every Buf that is allocated then."""
    given = {p.name: scalar(p, inputs) for p in func.params if isinstance(p, ScalarParam)}
    integers = {p.name: int(given[p.name]) for p in func.params if p.name in given and not is_float(p.dtype)}
    allocated = {action.buf for action in _actions(tree) if isinstance(action, Alloc)}
    scope: dict[str, Any] = {**HELPERS, "new": _new, "released": _Released, "copy": _copy, "orders": _orders(order)}
    for name, buf in all_bufs(func).items():
        late = buf.kind == "local" and name in allocated
        scope[f"b_{name}"] = _Released(name) if late else initial(buf, values.shape_of(buf, integers), inputs)
    scope.update({f"p_{name}": value for name, value in given.items()})
    translator = _TreeSource(func)
    source = translator.program(tree)
    scope.update(translator.constants)
    with np.errstate(all="ignore"):
        exec(compile(source, f"<{func.name}>", "exec"), scope)
    memory = {name: scope[f"b_{name}"] for name in all_bufs(func)}
    return {name: array for name, array in memory.items() if not isinstance(array, _Released)}


class _TreeSource(Source):
    """Python source of a loop tree; iterators are variables of the module or of the functions for deep bodies."""

    def __init__(self, func: Func) -> None:
        super().__init__(func)
        self._bufs = all_bufs(func)
        defined = sorted(c.defines for c in func.comps if c.defines is not None)
        changed = [f"p_{name}" for name in defined] + [f"b_{b.name}" for b in func.bufs if b.kind == "local"]
        self._globals = f"global {', '.join(changed)}" if changed else "pass"

    def program(self, tree: Tree) -> str:
        lines = self._lines(tree, "", (), 0)
        return "\n".join([*self.parts, *lines]) + "\n"

    def element(self, access: Load) -> str:
        return f"b_{access.buf}[{self._index(access)}]"

    def _index(self, access: Load) -> str:
        name = f"b_{access.buf}"
        where = self.constant(access.loc)
        texts = [
            f"check_index({self.expr(index)}, {name}.shape[{k}], {access.buf!r}, {where})"
            for k, index in enumerate(access.indices)
        ]
        return "".join(f"{text}, " for text in texts) or "()"

    def _lines(self, tree: Tree, indent: str, iterators: tuple[str, ...], depth: int) -> list[str]:
        self.arguments = ", ".join(f"i_{name}" for name in iterators)
        match tree:
            case Seq(children=inside):
                lines = [line for child in inside for line in self._lines(child, indent, iterators, depth)]
                return lines or [f"{indent}pass"]
            case If(condition=condition, then=then):
                head = f"{indent}if {self.expr(condition)}:"
                return [head, *self._lines(then, indent + " ", iterators, depth)]
            case For():
                return self._loop(tree, indent, iterators, depth)
            case Leaf():
                return self._leaf(tree, indent)
            case Do():
                return [indent + self._action(tree)]

    def _loop(self, loop: For, indent: str, iterators: tuple[str, ...], depth: int) -> list[str]:
        steps = f"range({self.expr(loop.lower)}, {self.expr(loop.upper)}, {loop.step})"
        if loop.tag is not None and (loop.tag in _FREE_ORDER or loop.tag.startswith("gpu_")):
            steps = f"orders({steps})"
        if loop.tag == "vectorize" and _is_flat(loop.body):
            return self._together(loop.body, loop, steps, indent, (), iterators)
        head = f"{indent}for i_{loop.iterator} in {steps}:"
        inner = (*(i for i in iterators if i != loop.iterator), loop.iterator)
        if depth < _DEEPEST_LOOPS:
            return [head, *self._body(loop, indent + " ", inner, depth + 1)]
        # Python limits how deep loops may nest in one function.
        name = f"body_{len(self.parts)}"
        body = self._body(loop, " ", inner, 0)
        arguments = ", ".join(f"i_{i}" for i in inner)
        self.parts += [f"def {name}({arguments}):", f" {self._globals}", *body]
        return [head, f"{indent} {name}({arguments})"]

    def _together(
        self, tree: Tree, loop: For, steps: str, indent: str, conditions: tuple[Expr, ...], iterators: tuple[str, ...]
    ) -> list[str]:
        """All lanes of each statement before the next statement. Updates of what all lanes share come one by one."""
        match tree:
            case Seq(children=inside):
                parts = (self._together(c, loop, steps, indent, conditions, iterators) for c in inside)
                return [line for part in parts for line in part] or [f"{indent}pass"]
            case If(condition=condition, then=then):
                return self._together(then, loop, steps, indent, (*conditions, condition), iterators)
            case Leaf(target=Load() as target, value=value) if value is not None:
                self.arguments = ", ".join(f"i_{name}" for name in (*iterators, loop.iterator))
                shared = not any(_mentions(index, loop.iterator) for index in target.indices)
                tests = [f"{indent} if {self.expr(condition)}:" for condition in conditions]
                tests = [" " * k + test for k, test in enumerate(tests)]
                inner = indent + " " * (1 + len(tests))
                head = [f"{indent}for i_{loop.iterator} in {steps}:", *tests]
                if shared or tree.comp.defines is not None:
                    return [*head, *self._leaf(tree, inner)]
                lane = f"{inner}lanes.append((({self._index(target)}), {self.expr(value)}))"
                store = f"{indent}for place, value in lanes: b_{target.buf}[place] = value"
                return [f"{indent}lanes = []", *head, lane, store]
        raise AssertionError("a loop without loops in it")

    def _body(self, loop: For, indent: str, iterators: tuple[str, ...], depth: int) -> list[str]:
        if loop.tag is not None and loop.tag.startswith("gpu_thread"):
            _refuse_barriers(loop.body)
        return self._lines(loop.body, indent, iterators, depth)

    def _leaf(self, leaf: Leaf, indent: str) -> list[str]:
        if leaf.target is None or leaf.value is None:
            raise PlantError(
                f"the tree's {leaf.comp.name} is a tile, and only plain assignments run", loc=leaf.comp.loc
            )
        element = self.element(leaf.target)
        lines = [f"{indent}{element} = {self.expr(leaf.value)}"]
        if leaf.comp.defines is not None:
            lines.append(f"{indent}p_{leaf.comp.defines} = int({element})")
        return lines

    def _action(self, do: Do) -> str:
        match do.action:
            case Alloc(buf=name):
                buf = self._bufs[name]
                extents = "".join(f"{self._extent(n)}, " for n in buf.shape)
                return f"b_{name} = new({buf.dtype!r}, ({extents}))"
            case Free(buf=name):
                return f"b_{name} = released({name!r})"
            case Memcpy(to=to, source=source):
                return f"copy(b_{to}, b_{source}, {to!r}, {source!r})"
            case Verbatim(text=text) if text == _BARRIER:
                return "pass"
            case Verbatim(text=text):
                raise PlantError(f"text of the target language has no value here: {text!r}", loc=do.loc)

    def _extent(self, extent: Extent) -> str:
        return str(extent) if isinstance(extent, int) else self.expr(extent)


def _is_flat(tree: Tree) -> bool:
    """It has plain assignments only, no loops and no effects."""
    match tree:
        case Seq(children=inside):
            return all(map(_is_flat, inside))
        case If(then=then):
            return _is_flat(then)
        case Leaf(target=target, value=value):
            return target is not None and value is not None
        case _:
            return False


def _mentions(expr: Expr, iterator: str) -> bool:
    return (isinstance(expr, Iter) and expr.name == iterator) or any(_mentions(p, iterator) for p in children(expr))


def _refuse_barriers(tree: Tree) -> None:
    match tree:
        case Seq(children=inside):
            for child in inside:
                _refuse_barriers(child)
        case For(body=inner) | If(then=inner):
            _refuse_barriers(inner)
        case Do(action=Verbatim(text=text), loc=loc) if text == _BARRIER:
            raise PlantError(
                "a barrier inside of a loop of threads can't be run one thread after the other",
                loc=loc,
                remedy="put the barrier between loops of threads",
            )


class _Released:
    """Stands for a local array before its `Alloc` and after its `Free`."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def shape(self) -> tuple[int, ...]:
        raise PlantError(f"'{self._name}' is accessed while it isn't allocated")

    def __getitem__(self, index: object) -> object:
        return self.shape

    def __setitem__(self, index: object, value: object) -> None:
        raise PlantError(f"'{self._name}' is written while it isn't allocated")


def _new(dtype: DType, shape: tuple[int, ...]) -> Array:
    if any(n < 0 for n in shape):
        raise PlantError(f"an array of shape {shape} is allocated")
    return np.full(shape, np.nan if is_float(dtype) else 0, values.NUMPY[dtype])


def _copy(to: Array, source: Array, to_name: str, source_name: str) -> None:
    if to.shape != source.shape:
        raise PlantError(f"'{source_name}' of shape {source.shape} is copied to '{to_name}' of shape {to.shape}")
    to[...] = source


def _orders(order: Order) -> Callable[[range], Iterator[int]]:
    chance = random.Random(0)

    def arranged(steps: range) -> Iterator[int]:
        if order == "random":
            return iter(chance.sample(steps, len(steps)))
        return reversed(steps) if order == "reversed" else iter(steps)

    return arranged


def _actions(tree: Tree) -> Iterator[object]:
    match tree:
        case Seq(children=inside):
            for child in inside:
                yield from _actions(child)
        case For(body=inner) | If(then=inner):
            yield from _actions(inner)
        case Do(action=action):
            yield action
        case Leaf():
            return
