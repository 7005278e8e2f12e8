"""Local arrays without the axes along which only one element at a time is alive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from backends.cpu.ir.context import assignment
from plant_core.ir.accesses import accesses, all_bufs, children, linear, rebuild
from plant_core.ir.func import Alloc, Buf, Expr, Free, Func, Load, Memcpy, Verbatim
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree

_Form = tuple[int, tuple[tuple[str, int], ...]]


@dataclass(frozen=True, slots=True)
class Contracted:
    """`private`: the arrays that each iteration of a parallel loop has for itself now."""

    tree: Tree
    bufs: dict[str, Buf]
    private: frozenset[str]


def contracted(func: Func, tree: Tree) -> Contracted:
    """`tree` with subscripts left out, and the arrays that have fewer axes now.

    Before: `for k { for i { z[k][i] = ...; } for i { y[i] = z[k][i]; } }`. After: the same with `z[i]`.
    Requires: nothing. Ensures: every read has the value that it had. An axis goes where all subscripts on it are one
    expression, whose value changes from iteration to iteration of loops that have the array to themselves.
    """
    uses = _Uses()
    uses.tree(tree, ())
    found: dict[str, Buf] = {}
    private = set()
    for name, buf in all_bufs(func).items():
        if buf.kind != "local" or buf.alloc_at is not None or name not in uses.places:
            continue
        if uses.text or name in uses.fixed:
            continue
        axes, loops = _axes(uses.places[name])
        if not axes:
            continue
        shape = tuple(n for k, n in enumerate(buf.shape) if k not in axes)
        found[name] = replace(buf, shape=shape)
        tree = _Without(name, axes).tree(tree)
        if any(loop.tag == "parallel" for loop in loops):
            private.add(name)
    return Contracted(tree, found, frozenset(private))


@dataclass(slots=True)
class _Uses:
    """Where each array is used: the loops around, and the subscripts. `fixed`: arrays with uses of other kinds."""

    places: dict[str, list[tuple[tuple[For, ...], tuple[Expr, ...]]]] = field(default_factory=dict)
    fixed: set[str] = field(default_factory=set)
    text: bool = False

    def tree(self, tree: Tree, loops: tuple[For, ...]) -> None:
        match tree:
            case Seq(children=parts):
                for part in parts:
                    self.tree(part, loops)
            case For(lower=lower, upper=upper, body=body):
                self.fixed |= {a.buf for e in (lower, upper) for a in accesses(e)}
                self.tree(body, (*loops, tree))
            case If(condition=condition, then=then):
                self.fixed |= {a.buf for a in accesses(condition)}
                self.tree(then, loops)
            case Leaf():
                self.text |= any(map(_has_text, assignment(tree)))
                for access in (a for e in assignment(tree) for a in accesses(e)):
                    self.places.setdefault(access.buf, []).append((loops, access.indices))
                    if any(span != 1 for span in tree.tile.spans):
                        self.fixed.add(access.buf)
            case Do(action=Alloc(buf=buf) | Free(buf=buf)):
                self.fixed.add(buf)
            case Do(action=Memcpy(to=to, source=source)):
                self.fixed |= {to, source}
            case Do(action=Verbatim()):
                self.text = True


def _axes(places: list[tuple[tuple[For, ...], tuple[Expr, ...]]]) -> tuple[set[int], list[For]]:
    """The axes to leave out, and the loops that have the array to themselves because of it.

    From the outermost loop in: as long as the subscripts tell each loop's iteration, what is used in one isn't used
    in any other.
    """
    forms = [_form(indices[k] for _, indices in places) for k in range(len(places[0][1]))]
    common = places[0][0]
    for loops, _ in places:
        same = 0
        while same < min(len(common), len(loops)) and common[same] is loops[same]:
            same += 1
        common = common[:same]
    told: list[For] = []
    axes = {k for k, form in enumerate(forms) if form is not None and not form[1]}
    for loop in common:
        known = {each.iterator for each in (*told, loop)}
        telling = [k for k, form in enumerate(forms) if form is not None and _names(form) <= known]
        if loop.tag == "vectorize" or not any(loop.iterator in _names(forms[k]) for k in telling):
            break
        told.append(loop)
        axes |= set(telling)
    return axes, told


def _form(indices: Iterator[Expr]) -> _Form | None:
    """What all of the subscripts are, if they are one affine expression of iterators that moves."""
    found: set[_Form | None] = set()
    for index in indices:
        form = None if any(True for _ in accesses(index)) else linear(index)
        found.add(None if form is None else (form[0], tuple(sorted(form[1].items()))))
    return found.pop() if len(found) == 1 else None


def _names(form: _Form | None) -> set[str]:
    return set() if form is None else {name for name, factor in form[1] if factor}


def _has_text(expr: Expr) -> bool:
    return isinstance(expr, Verbatim) or any(map(_has_text, children(expr)))


@dataclass(frozen=True, slots=True)
class _Without:
    """Leaves the subscripts on `axes` of `name` out."""

    name: str
    axes: set[int]

    def tree(self, tree: Tree) -> Tree:
        match tree:
            case Seq(children=parts):
                return Seq(tuple(map(self.tree, parts)))
            case For(body=body):
                return replace(tree, body=self.tree(body))
            case If(then=then):
                return replace(tree, then=self.tree(then))
            case Leaf():
                target, value = assignment(tree)
                new = self.expr(target)
                return replace(tree, target=new if isinstance(new, Load) else target, value=self.expr(value))
            case Do():
                return tree

    def expr(self, expr: Expr) -> Expr:
        parts = children(expr)
        made = rebuild(expr, tuple(map(self.expr, parts))) if parts else expr
        if isinstance(made, Load) and made.buf == self.name:
            return replace(made, indices=tuple(e for k, e in enumerate(made.indices) if k not in self.axes))
        return made
