"""A loop tree as readable text, in C's words."""

from __future__ import annotations

from plant_core.ir.func import Action, Alloc, Free, Memcpy, Verbatim
from plant_core.ir.loop_tree import Do, For, If, Leaf, Seq, Tree
from plant_core.ir.printer import print_expr


def print_tree(tree: Tree) -> str:
    """C-like text of a loop tree, with the loops' tags before them.

    A leaf is its assignment where the tree has it (`int b0 = ...` where that defines a parameter), else
    `S0{6x64:j}(i, j)`: the spans of its box and its lane iterator in braces, and the first point.
    """
    return "".join(f"{line}\n" for line in _lines(tree, ""))


def _lines(tree: Tree, indent: str) -> list[str]:
    match tree:
        case Seq(children=children):
            return [line for child in children for line in _lines(child, indent)]
        case For(iterator=name, lower=lower, upper=upper, step=step, body=body):
            advance = f"{name}++" if step == 1 else f"{name} += {step}"
            head = f"for ({name} = {print_expr(lower)}; {name} < {print_expr(upper)}; {advance})"
            marks = ([tree.tag] if tree.tag else []) + (["reduction"] if tree.reduction else [])
            return _with_body(" ".join([*marks, head]), body, indent)
        case If(condition=condition, then=then):
            return _with_body(f"if ({print_expr(condition)})", then, indent)
        case Leaf():
            return [f"{indent}{_leaf(tree)};"]
        case Do(action=action):
            text = _action(action)
            return [f"{indent}{text}" if text.endswith((";", "}")) else f"{indent}{text};"]


def _with_body(head: str, body: Tree, indent: str) -> list[str]:
    inner = _lines(body, indent + "  ")
    if isinstance(body, Seq):
        return [f"{indent}{head} {{", *inner, f"{indent}}}"]
    return [f"{indent}{head}", *inner]


def _leaf(leaf: Leaf) -> str:
    comp, tile = leaf.comp, leaf.tile
    if leaf.target is not None and leaf.value is not None:
        declared = "int " if comp.defines is not None else ""
        return f"{declared}{print_expr(leaf.target)} = {print_expr(leaf.value)}"
    spans = ""
    if set(tile.spans) - {1} or tile.lane:
        lane = f":{tile.lane}" if tile.lane else ""
        lane += f",{tile.inner}" if tile.inner else ""
        lane += f"/{tile.deal}" if tile.deal > 1 else ""
        extra = (" reduce" if tile.reduce else "") + (f" split {','.join(tile.split)}" if tile.split else "")
        extra += f" first {print_expr(leaf.count)}" if leaf.count is not None else ""
        extra += "".join(f" where {print_expr(g)} >= 0" for g in leaf.guards)
        spans = "{" + "x".join(map(str, tile.spans)) + lane + extra + "}"
    return f"{comp.name}{spans}({', '.join(map(print_expr, leaf.origin))})"


def _action(action: Action) -> str:
    match action:
        case Alloc(buf=buf):
            return f"alloc({buf})"
        case Free(buf=buf):
            return f"free({buf})"
        case Memcpy(to=to, source=source):
            return f"memcpy({to}, {source})"
        case Verbatim(text=text):
            return text
