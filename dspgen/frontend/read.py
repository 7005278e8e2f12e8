"""A C file as a polyhedral program. Error numbers are in `dspgen.frontend.parse.error_codes`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pycparser import c_ast, c_parser

from dspgen.errors import Problem, SourceError
from dspgen.frontend.desugar.early_returns import in_one_return
from dspgen.frontend.desugar.pipeline import lower
from dspgen.frontend.infer_extents import infer_extents
from dspgen.frontend.parse.assigned_names import counters, names, targets
from dspgen.frontend.parse.error_codes import fail
from dspgen.frontend.parse.preprocess import Preprocessed, preprocess, read_source
from dspgen.frontend.parse.prune_declarations import External, outline, pruned
from dspgen.frontend.scop import declarations
from dspgen.frontend.scop.affine_sets import Nest
from dspgen.frontend.scop.c_types import is_open
from dspgen.frontend.scop.expressions import ExpressionReader
from dspgen.frontend.scop.func_builder import Recorder
from dspgen.frontend.scop.scope import Scope
from dspgen.frontend.scop.statements import StatementReader
from plant_core.ir.func import Buf, Func, ScalarParam
from plant_core.support.location import Loc

_OLD_STYLE = re.compile(r"[^;{}()]*?\b(\w+)\s*\(\s*\w+(?:\s*,\s*\w+)*\s*\)\s*[A-Za-z_]")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def read_c(
    path: str,
    *,
    function: str | None = None,
    defines: Sequence[tuple[str, str]] = (),
    includes: Sequence[str] = (),
) -> Func:
    """The kernel in the C file at `path`.

    `function` defaults to the only one with a `#pragma scop`, else to the only one. A define that names an integer
    parameter of the function fixes its value, and it is no parameter any more; all others are macros. `includes` are
    folders to look for headers in, after the file's own. The value of a function that returns one is the only element
    of a last parameter, `FUNCTION_result`. Raises SourceError with every problem found.
    """
    macros, fixed = split_defines(path, defines)
    text = preprocess(path, macros, includes)
    try:
        return _read(text, function, fixed)
    except RecursionError:
        fail("DG013", "an expression is nested too deeply", Loc(path, 1), "store parts of it in variables")


def _read(text: Preprocessed, function: str | None, fixed: dict[str, int]) -> Func:
    externals = outline(text.text)
    chosen = _choose(text, externals, function)
    tree = _parse(text, pruned(text.text, externals, chosen))
    defined = next(n for n in tree.ext if isinstance(n, c_ast.FuncDef) and n.decl.name == chosen.function)
    kernel = _Kernel(text, tree, defined, fixed)
    try:
        return kernel.read(fixed)
    except SourceError as error:
        if not kernel.lowered.recovered:
            raise
        rows = any("may leave its row" in p.message for p in error.problems)
        try:
            # What the subscripts suggest isn't so: the reasons are those of the program as it stands.
            return _Kernel(text, tree, defined, fixed, recover=False).read(fixed)
        except SourceError:
            if rows:
                raise error from None
            raise


def split_defines(path: str, defines: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Which defines are macros, and which fix an integer parameter."""
    source = _COMMENT.sub(" ", read_source(path))
    macros, fixed = [], {}
    for name, value in defines:
        # In a parameter list a name comes after its type; in a call or an expression it doesn't.
        declared = rf"\b(?!(?:return|sizeof|define|case|const|else)\b)[A-Za-z_]\w*\s+{re.escape(name)}\s*[,)]"
        if re.search(declared, source) and not re.search(rf"^\s*#\s*(?:define|ifndef)\s+{name}\b", source, re.M):
            try:
                fixed[name] = int(value, 0)
            except ValueError:
                fail("DG022", f"-D {name}={value}: '{name}' is a parameter, and only integers can be fixed", None)
        else:
            macros.append((name, value))
    return macros, fixed


def call_order(path: str, function: str, macros: Sequence[tuple[str, str]], includes: Sequence[str]) -> list[str]:
    """Return the names of all parameters that the C function has, those that are fixed as well, in order."""
    text = preprocess(path, macros, includes)
    externals = outline(text.text)
    chosen = _choose(text, externals, function)
    tree = _parse(text, pruned(text.text, externals, chosen))
    defined = next(n for n in tree.ext if isinstance(n, c_ast.FuncDef) and n.decl.name == function)
    return [str(p.name) for p in defined.decl.type.args.params if isinstance(p, c_ast.Decl)]


def gives_value(func: Func) -> bool:
    """Whether the C function returns a number: then the last parameter, which has no place of its own, takes it."""
    last = func.params[-1] if func.params else None
    return isinstance(last, Buf) and last.loc is not None and last.loc == func.loc


def kernel_name(
    path: str, function: str | None, defines: Sequence[tuple[str, str]], includes: Sequence[str] = ()
) -> str:
    """The function that `read_c` would read."""
    text = preprocess(path, split_defines(path, defines)[0], includes)
    return str(_choose(text, outline(text.text), function).function)


def _parse(text: Preprocessed, kept: str) -> c_ast.FileAST:
    try:
        return c_parser.CParser().parse(kept, text.path)
    except c_parser.ParseError as error:
        match = re.match(r"(.*?):(\d+)(?::(\d+))?: (.*)", str(error))
        if match is None:
            fail("DG004", f"can't read the C: {error}", Loc(text.path, 1))
        file, line, column, message = match.groups()
        message = re.sub(r"^[Bb]efore: (.*)", r"syntax that isn't supported before '\1'", message)
        fail("DG004", message, text.place(file, int(line), int(column or 1)), "keep to standard C")


def _choose(text: Preprocessed, externals: Sequence[External], function: str | None) -> External:
    defined = [e for e in externals if e.function is not None]
    own = [e for e in defined if e.file == text.path]
    start = Loc(text.path, 1)
    if function is not None:
        found = next((d for d in defined if d.function == function), None)
        if found is None:
            listed = ", ".join(f"'{d.function}'" for d in own or defined)
            fail("DG005", f"there is no function '{function}'", start, f"the file has {listed or 'none'}")
        return found
    if not defined:
        for old in filter(None, (_OLD_STYLE.match(text.text, e.start) for e in externals)):
            named = (n for (file, n), shown in text.lines.items() if file == text.path and f"{old[1]}(" in shown)
            what = f"'{old[1]}' has the types of its parameters behind the parentheses"
            fail("DG004", what, Loc(text.path, next(named, 1)), f"write them inside: '{old[1]}(int n, ...)'")
        fail("DG005", "the file defines no function", start, "write the loop nest in a function")
    marked = [d for d in defined if d.marked]
    candidates = marked or _without_helpers(own) or own or defined
    if len(candidates) != 1:
        listed = ", ".join(f"'{d.function}'" for d in candidates)
        where = "have a #pragma scop" if marked else "are defined"
        fail("DG005", f"several functions {where}: {listed}", start, f"choose one: --function {candidates[0].function}")
    return candidates[0]


def _without_helpers(defined: list[External]) -> list[External]:
    """Without `main`, and without the functions that others call."""
    inner = [d for d in defined if d.function != "main"]
    called = {name for d in inner for name in d.uses if name != d.function}
    return [d for d in inner if d.function not in called]


def _is_pragma(node: c_ast.Node, word: str) -> bool:
    return isinstance(node, c_ast.Pragma) and node.string.split()[:1] == [word]


class _Kernel:
    """One function of the file, on its way to a Func."""

    def __init__(
        self,
        text: Preprocessed,
        tree: c_ast.FileAST,
        function: c_ast.FuncDef,
        fixed: Mapping[str, int],
        *,
        recover: bool = True,
    ) -> None:
        self._text = text
        self._tree = tree
        self.lowered = lower(tree, function, fixed, self._place, recover=recover)
        self._function = self.lowered.function
        self._recorder = Recorder()
        self._params: tuple[Buf | ScalarParam, ...] = ()
        others = {n.decl.name: in_one_return(n) for n in tree.ext if isinstance(n, c_ast.FuncDef) and n is not function}
        typedefs = {n.name: n.type for n in tree.ext if isinstance(n, c_ast.Typedef)}
        expressions = ExpressionReader(Scope(), self._place, typedefs, others, Nest.root(()), [function.decl.name])
        self._reader = StatementReader(expressions, self._recorder, counters(self._function))
        self._reader.defines = self.lowered.defines
        self._reader.scope.meanings = self.lowered.meanings

    def _place(self, node: c_ast.Node) -> Loc:
        coord = node.coord
        if coord is None:
            return Loc(self._text.path, 1)
        return self._text.place(coord.file, coord.line, coord.column or 1)

    def read(self, fixed: dict[str, int]) -> Func:
        function = self._function
        loc = self._place(function.decl)
        self._check_result(loc)
        root = self._parameters_and_constants(fixed)
        self._body()
        if self._recorder.problems:
            raise SourceError(*self._recorder.problems)
        func = self._recorder.finish(function.decl.name, self._params, root, loc)
        return _with_extents(infer_extents(func, self.lowered))

    def _check_result(self, loc: Loc) -> None:
        result = self._function.decl.type.type
        if not (isinstance(result, c_ast.TypeDecl) and getattr(result.type, "names", None) == ["void"]):
            message = "the kernel's value must be a number that it returns at its end"
            fail("DG006", message, loc, "return void, and hand the results back in array parameters")

    def _file_scope(self) -> list[c_ast.Decl]:
        """The declarations of the file that the kernel or a function of the file may use."""
        used = {name for node in self._tree.ext if isinstance(node, c_ast.FuncDef) for name in names(node)}
        found = [n for n in self._tree.ext if isinstance(n, c_ast.Decl) and not isinstance(n.type, c_ast.FuncDecl)]
        return [n for n in found if n.name is None or n.name in used]

    def _parameters_and_constants(self, fixed: dict[str, int]) -> Nest:
        """Declares everything around the body. Array sizes need the file's constants, its arrays the parameters."""
        for node in self._tree.ext:
            if isinstance(node, c_ast.Typedef | c_ast.Decl):
                declarations.shared_enumerators(self._reader, node)
        for node in self._file_scope():
            if not isinstance(node.type, c_ast.ArrayDecl):
                declarations.shared(self._reader, node)
        self._reader.scope.enter()
        assigned = set(targets(self._function.body))
        self._params, root = declarations.parameters(self._reader, self._function, fixed, assigned)
        root = root.with_parameters(self.lowered.defines)
        self._reader.expressions.nest = root
        self._reader.scope.taken.update(self.lowered.defines)
        with self._reader.scope.outermost():
            for node in self._file_scope():
                if isinstance(node.type, c_ast.ArrayDecl):
                    declarations.shared(self._reader, node)
        return root

    def _body(self) -> None:
        items = self._function.body.block_items or []
        self._reader.scope.enter()
        first, last = self._region(items)
        for index, item in enumerate(items):
            inside = first < index < last
            if index in (first, last) or (index == len(items) - 1 and _is_plain_return(item)):
                continue
            if not inside and not self._may_be_outside(item, before=index < first):
                problem = Problem(
                    "DG019",
                    "a statement outside the region between #pragma scop and #pragma endscop",
                    self._place(item),
                    "move the pragmas around it",
                )
                self._recorder.report(SourceError(problem))
                continue
            self._reader.statement(item)
        self._reader.scope.leave()

    def _region(self, items: list[c_ast.Node]) -> tuple[int, int]:
        """Where the pragmas are, or just outside the block."""
        starts = [k for k, item in enumerate(items) if _is_pragma(item, "scop")]
        ends = [k for k, item in enumerate(items) if _is_pragma(item, "endscop")]
        if not starts and not ends:
            return -1, len(items)
        for extra in (*starts[1:], *ends[1:]):
            fail("DG019", "a second region in one function", self._place(items[extra]), "use one region")
        if not starts or not ends or starts[0] > ends[0]:
            place = self._place(items[(starts or ends)[0]])
            fail("DG019", "#pragma scop and #pragma endscop don't match", place, "use one of each, in this order")
        return starts[0], ends[0]

    def _may_be_outside(self, item: c_ast.Node, *, before: bool) -> bool:
        """Before the region, declarations and assignments to variables; behind it, nothing that does anything."""
        match item:
            case c_ast.Pragma() | c_ast.EmptyStatement() | c_ast.Typedef() | c_ast.Cast():
                return True
            case c_ast.Decl():
                return before or item.init is None
            case c_ast.Assignment(lvalue=c_ast.ID()):
                return before
            case _:
                return False


def _is_plain_return(node: c_ast.Node) -> bool:
    return isinstance(node, c_ast.Return) and node.expr is None


def _with_extents(func: Func) -> Func:
    for buf in func.bufs:
        if any(is_open(extent) for extent in buf.shape):
            fail(
                "DG007",
                f"the extent of '{buf.name}' isn't known",
                buf.loc,
                f"give the size: '{buf.name}[N]' with N a constant or an integer parameter",
            )
    return func
