"""Macros and rewrite rows: their repetitions spelled out, their terms and names checked.

side ::= (let ?name term)* term+
term ::= ?name | number | (op.elem[.imm]* term*), or a load (ld.elem ?memory offset [stride]). The rewriting stage has
the whole grammar, and types the terms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dspgen.target.build.context import Context
from dspgen.target.isa.model import Macro, Rewrite
from dspgen.target.schema import macros as schema_macros
from dspgen.target.schema import tables
from dspgen.target.schema.expressions import ExpressionError, evaluate
from dspgen.target.schema.structure import expand_names, suggest
from dspgen.target.schema.toml_positions import Path
from dspgen.vecdsl.ir.program import OPS

_ELEMENTS = ("f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "T")
_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")
_NUMBER = re.compile(r"-?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?f?)\Z")
_FIELD = re.compile(r"\{([^{}]*)\}")
_CONDITIONS = ("scalar", "vector", "reassoc", "contract", "int", "float", *_ELEMENTS[:-1])
_RELATIONS = ("log2", "negated", "inverse", "reciprocal", "short16")
_COMPARISON = re.compile(r"[^<>=!]+(?:<=|>=|!=|<|>|=)[^<>=!]+")


class TermError(ValueError):
    """The text is not a term of the vector DSL."""


def check_term(text: str, *, several: bool = False) -> tuple[str, ...]:
    """The pattern variables of a term (or of terms) in order of first use. Raises TermError."""
    tokens = _TOKEN.findall(text)
    variables: dict[str, None] = {}
    named: set[str] = set()
    end = 0
    while several and tokens[end : end + 2] == ["(", "let"]:
        own: dict[str, None] = {}
        name, end = tokens[end + 2][1:], _term(tokens, end + 3, text, own) + 1
        variables.update(dict.fromkeys(v for v in own if v not in named))
        named.add(name)
    own = {}
    end = _term(tokens, end, text, own)
    while several and end < len(tokens):
        end = _term(tokens, end, text, own)
    variables.update(dict.fromkeys(v for v in own if v not in named))
    if end != len(tokens):
        raise TermError(f"`{text}`: `{tokens[end]}` stands after the end of the term")
    return tuple(variables)


def _term(tokens: list[str], at: int, text: str, variables: dict[str, None]) -> int:
    if at >= len(tokens):
        raise TermError(f"`{text}` ends too soon")
    token = tokens[at]
    if token == "(":
        if at + 1 >= len(tokens):
            raise TermError(f"`{text}` ends too soon")
        return _application(tokens, at + 1, text, variables)
    if token.startswith("?") and token[1:].isidentifier():
        variables[token[1:]] = None
        return at + 1
    if _NUMBER.match(token):
        return at + 1
    raise TermError(f"`{text}`: `{token}` is neither a variable `?name`, a number nor a term in parentheses")


def _application(tokens: list[str], at: int, text: str, variables: dict[str, None]) -> int:
    head = tokens[at]
    at += 1
    count = 0
    load = head.split(".")[0] in ("ld", "ld_pair")
    arity = 3 if load else _arity(head, text, variables)
    while at < len(tokens) and tokens[at] != ")":
        if load:
            variables.update(dict.fromkeys(re.findall(r"\?(\w+)", tokens[at])))
            at += 1
        else:
            at = _term(tokens, at, text, variables)
        count += 1
    if at >= len(tokens):
        raise TermError(f"`{text}`: `)` is missing")
    if count != arity and not (load and count == 2):
        raise TermError(f"`{text}`: `{head}` takes {arity} argument{'s' * (arity != 1)}, not {count}")
    return at + 1


def _arity(head: str, text: str, variables: dict[str, None]) -> int:
    name, *rest = head.split(".", 2)
    if name not in OPS:
        hint = suggest(name, tuple(OPS))
        raise TermError(f"`{text}`: `{name}` is not an operation{'; ' + hint if hint else ''}")
    if not rest or rest[0] not in _ELEMENTS:
        raise TermError(f"`{text}`: `{head}` needs an element type after its name, as in `{name}.f32`")
    variables.update(dict.fromkeys(re.findall(r"\?(\w+)", head)))
    return OPS[name].arity


def build_rewrites(isa: tables.Isa, context: Context) -> tuple[Rewrite, ...]:
    found: list[Rewrite] = []
    for name, row in isa.rewrites.items():
        path: Path = ("rewrites", name)
        right = row.right
        if bool(row.right) == (row.tree is not None):
            context.fault("DG114", path, "needs either `right` or `tree`", at_key=True)
            continue
        if row.tree is not None:
            right = _tree(row.tree, 0, max(row.tree.count, 1))
        right = "".join(f"(let ?{n} {t}) " for n, t in row.let.items()) + right
        variables: list[tuple[str, ...]] = []
        for key, text in (("left", row.left), ("right" if row.right else "tree", right)):
            try:
                variables.append(check_term(text, several=True))
            except TermError as fault:
                context.fault("DG114", (*path, key), str(fault))
        bound = re.findall(r"\?(\w+)", row.when)
        if len(variables) == 2 and (loose := [v for v in variables[1] if v not in (*variables[0], *bound)]):
            context.fault("DG114", (*path, "right"), f"`?{loose[0]}` does not occur on the left")
        for word in (w.strip() for w in row.when.split(",")):
            known = word in _CONDITIONS or word.split(" ")[0] in _RELATIONS or _COMPARISON.fullmatch(word)
            if word and not known:
                message = f"`{word}` is not a condition; known: {', '.join((*_CONDITIONS, *_RELATIONS))}, comparisons"
                context.fault("DG114", (*path, "when"), message)
        found.append(Rewrite(name, row.left, right, row.when, row.why, row.packed))
    return tuple(found)


def _tree(tree: schema_macros.Tree, low: int, high: int) -> str:
    if high - low == 1:
        return tree.leaf.replace("{" + tree.index + "}", str(low))
    middle = (low + high + 1) // 2
    return f"({tree.op} {_tree(tree, low, middle)} {_tree(tree, middle, high)})"


def build_macros(isa: tables.Isa, context: Context) -> tuple[Macro, ...]:
    found: list[Macro] = []
    for name, row in isa.macros.items():
        path: Path = ("macros", name)
        if row.implements.split(".")[0] not in OPS:
            remedy = suggest(row.implements.split(".")[0], tuple(OPS))
            context.fault("DG114", (*path, "implements"), f"`{row.implements}` is not an operation", remedy)
        context.check_class((*path, "result_class"), row.result_class)
        temporaries = _temporaries(row, path, context)
        for operand, cls in row.operands.items():
            if cls != "immediate":
                context.check_class((*path, "operands", operand), cls)
        setup = [("setup", n, line) for n, line in _lines(row.setup, (*path, "setup"), context)]
        body = [("body", n, line) for n, line in _lines(row.body, (*path, "body"), context)]
        known = {row.result, *row.operands, *(n for n, _ in temporaries)}
        mnemonics = {i.mnemonic or id for id, i in isa.instructions.items()}
        for key, n, line in (*setup, *body):
            at: Path = (*path, key, n)
            for expression in _FIELD.findall(line):
                for word in re.findall(r"[A-Za-z_]\w*", expression.removesuffix(".lo").removesuffix(".hi")):
                    if word not in known:
                        remedy = suggest(word, sorted(known))
                        context.fault("DG114", at, f"`{word}` is no operand or temporary of the macro", remedy)
            word = re.split(r"[\s.]", line.strip(), maxsplit=1)[0]
            if word not in mnemonics:
                context.fault("DG114", at, f"`{word}` is not a mnemonic", suggest(word, sorted(mnemonics)))
        lines, before = tuple(line for _, _, line in body), tuple(line for _, _, line in setup)
        operands = tuple(row.operands.items())
        found.append(
            Macro(
                implements=row.implements,
                result=row.result,
                result_class=row.result_class,
                operands=operands,
                temporaries=temporaries,
                body=lines,
                ordered=row.ordered,
                setup=before,
                packed=row.packed,
                multiple=max(row.multiple, 1),
                pattern=_pattern(row, path, context),
            )
        )
    return tuple(found)


def _pattern(row: schema_macros.Macro, path: Path, context: Context) -> tuple[int, ...]:
    """The pattern's text for each lane number `k`; `lanes` are those of the view that the macro is for."""
    if not row.pattern:
        return ()
    lanes = context.lanes * max(row.packed, 1)
    try:
        return tuple(evaluate(row.pattern, {"k": k, "lanes": lanes}) for k in range(lanes))
    except ExpressionError as fault:
        context.fault("DG105", (*path, "pattern"), str(fault))
        return ()


def _temporaries(row: schema_macros.Macro, path: Path, context: Context) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for pattern, cls in row.temporaries.items():
        context.check_class((*path, "temporaries", pattern), cls)
        try:
            found += [(name, cls) for name in expand_names([pattern], {"lanes": context.lanes})]
        except ExpressionError as fault:
            context.fault("DG105", (*path, "temporaries", pattern), str(fault), at_key=True)
    return tuple(found)


def _lines(body: tuple[schema_macros.Line, ...], path: Path, context: Context) -> list[tuple[int, str]]:
    """The lines spelled out, each with the index of the entry that it comes from."""
    found: list[tuple[int, str]] = []
    for n, line in enumerate(body):
        if sum((bool(line.text), line.repeat is not None, line.fold is not None)) != 1:
            context.fault("DG114", (*path, n), "must be a line, a `repeat` or a `fold`")
        elif line.repeat is not None:
            for k in range(line.repeat.first, line.repeat.end):
                names = {line.repeat.index: k, "lanes": context.lanes}
                found += [(n, _filled(text, names)) for text in line.repeat.lines]
        elif line.fold is not None:
            for left, right in _joints(line.fold.count):
                names = {"left": left, "right": right}
                found += [(n, _filled(text, names)) for text in line.fold.lines]
        else:
            found.append((n, line.text))
    return found


def _joints(count: int) -> list[tuple[int, int]]:
    step, found = 1, []
    while step < count:
        found += [(k, k + step) for k in range(0, count - step, 2 * step)]
        step *= 2
    return found


def _filled(text: str, names: Mapping[str, int]) -> str:
    """Innermost braces that hold an expression of `names` are replaced by its value."""

    def value(match: re.Match[str]) -> str:
        try:
            return str(evaluate(match.group(1), names))
        except ExpressionError:
            return match.group()

    return _FIELD.sub(value, text)
