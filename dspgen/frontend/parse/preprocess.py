"""The user's C through the host's preprocessor, and every place in the result back to the user's own file."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from pathlib import Path

from dspgen.errors import Problem, SourceError
from dspgen.frontend.parse.error_codes import fail
from plant_core.support.location import Loc

INCLUDE = Path(__file__).parent / "include"
Defines = Sequence[tuple[str, str]]
Includes = Sequence[str]

_MARKER = re.compile(r'^#\s*(?:line\s+)?(\d+)\s+"((?:[^"\\]|\\.)*)"')
_DIAGNOSTIC = re.compile(r"^(.+?):(\d+):(?:(\d+):)? (?:fatal )?error: (.*)$")
_TOKEN = re.compile(
    r"[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
    r"|<<=|>>=|\+\+|--|&&|\|\||->|[-+*/%&|^<>=!]=|<<|>>|\S"
)
_DROPPED = re.compile(
    r"\b(?:__restrict__|__restrict|__extension__|__inline__|__inline|__signed__|__signed|__const__|__const"
    r"|__volatile__|__volatile|_Noreturn|_Thread_local|__thread)\b"
)
_REPLACED = {
    "__volatile__": "volatile",
    "__volatile": "volatile",
    "__const__": "const",
    "__const": "const",
    "__signed__": "signed",
    "__signed": "signed",
}
_ATTRIBUTE = re.compile(r"\b(?:__attribute__|__attribute|__asm__|__asm|asm|__declspec|_Alignas|__nonnull)\s*\(")
_MISSING = "No such file or directory"


@dataclass(frozen=True, slots=True)
class Preprocessed:
    """Text for the parser, and for each place in it the user's."""

    path: str
    text: str
    lines: dict[tuple[str, int], str] = field(repr=False)
    own: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False)

    def place(self, file: str, line: int, column: int) -> Loc:
        """The user's place of a token that starts at `column` of preprocessed `line`."""
        shown = self.lines.get((file, line))
        if file not in self.own:
            self.own[file] = _own_lines(file)
        own = self.own[file]
        if shown is None or not 1 <= line <= len(own):
            return Loc(file, line, max(column, 1))
        return Loc(file, line, _own_column(shown, own[line - 1], column))


def compiler() -> list[str]:
    """The command that runs the host's C compiler."""
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    fail("DG002", "no C compiler found", None, "install one that is called cc, gcc or clang, or the package ziglang")


def run_compiler(arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The compiler with plain English messages."""
    prefix = ["env", "LC_ALL=C"] if shutil.which("env") else []
    command = [*prefix, *compiler(), *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)


def define_flags(defines: Defines) -> list[str]:
    return [f"-D{name}={value}" for name, value in defines]


def _flags(defines: Defines, includes: Includes, *, own_headers: bool) -> list[str]:
    headers = ["-nostdinc", "-I", str(INCLUDE)] if own_headers else ["-DNDEBUG"]
    folders = [flag for folder in includes for flag in ("-I", folder)]
    return ["-std=gnu11", "-fsigned-char", "-w", *folders, *headers, *define_flags(defines), "-x", "c"]


def read_source(path: str) -> str:
    if Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir()):
        fail("DG001", f"can't read '{path}': it is no regular file", None, "give a file of C text")
    try:
        text = Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        reason = error.strerror or "it can't be read"
        fail("DG001", f"can't read '{path}': {reason}", None, "check the path")
    if "\0" in text:
        fail("DG001", f"can't read '{path}': it is not text", None, "give a file of C text")
    return text


def preprocess(path: str, defines: Defines, includes: Includes = ()) -> Preprocessed:
    """The text of `path` after `cc -E`. What the compiler finds wrong with the C raises SourceError."""
    flags = reading_flags(path, defines, includes)
    result = run_compiler(["-E", *flags, path])
    if result.returncode:
        raise SourceError(*_diagnostics(result.stderr, path))
    text = _strip_extensions(result.stdout)
    return Preprocessed(path, text, _lines_by_place(text))


def reading_flags(path: str, defines: Defines, includes: Includes = ()) -> list[str]:
    """The flags under which the compiler accepts the file; raises SourceError with what it says if there are none.

    This package's own headers are small and the same everywhere; a file that needs others gets the system's, all of
    them, as the two don't mix.
    """
    read_source(path)
    for folder in includes:
        if not Path(folder).is_dir():
            fail("DG001", f"there is no folder '{folder}' to include from", None, "check the path after -I")
    own = _flags(defines, includes, own_headers=True)
    checked = run_compiler(["-fsyntax-only", *own, path])
    if not checked.returncode:
        return own
    system = _flags(defines, includes, own_headers=False)
    again = run_compiler(["-fsyntax-only", *system, path])
    if not again.returncode:
        return system
    found = _MISSING in checked.stderr and _MISSING not in again.stderr
    raise SourceError(*_diagnostics((again if found else checked).stderr, path))


_COMMAND_LINE = "<command-line>: error: "


def _diagnostics(stderr: str, path: str) -> list[Problem]:
    problems = []
    for line in stderr.splitlines():
        if match := _DIAGNOSTIC.match(line):
            file, number, column, message = match.groups()
            remedy = ""
            if _MISSING in message:
                remedy = "check the name, and give the folder that has it with -I"
            if undeclared := re.match(r"'(\w+)' undeclared", message):
                remedy = f"declare it before it is used, or give a macro its value: -D {undeclared.group(1)}=8"
            if message.startswith("invalid operands") and " *'" in message:
                remedy = "give each array as many subscripts as it has dimensions"
            problems.append(Problem("DG003", message, Loc(file, int(number), int(column or 1)), remedy))
        elif line.startswith(_COMMAND_LINE):
            problems.append(Problem("DG003", line.removeprefix(_COMMAND_LINE), None, "check the values after -D"))
    return list(dict.fromkeys(problems))[:20] or [
        Problem("DG003", f"the C compiler refuses the file: {stderr.strip()[:500]}", Loc(path, 1))
    ]


def _strip_extensions(text: str) -> str:
    """Without GCC's own keywords; everything else keeps its column."""

    def dropped(match: re.Match[str]) -> str:
        return _REPLACED.get(match.group(), "").ljust(len(match.group()))

    text = _DROPPED.sub(dropped, text)
    pieces, done = [], 0
    while match := _ATTRIBUTE.search(text, done):
        end, depth = match.end(), 1
        while depth and end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found = text[match.start() : end]
        asked = "asm" in match.group() and _is_statement(text[: match.start()])
        kept = found if asked else re.sub(r"[^\n]", " ", found)
        pieces += [text[done : match.start()], kept]
        done = end
    return "".join([*pieces, text[done:]])


def _is_statement(before: str) -> bool:
    """Whether what comes next begins a statement of a function, where assembly does something."""
    return before.count("{") > before.count("}") and before.rstrip().endswith((";", "{", "}"))


def _lines_by_place(text: str) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    file, number = "", 0
    for line in text.splitlines():
        if marker := _MARKER.match(line):
            number, file = int(marker.group(1)), marker.group(2)
            continue
        found.setdefault((file, number), line)
        number += 1
    return found


def _own_lines(file: str) -> tuple[str, ...]:
    try:
        return tuple(Path(file).read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return ()


@lru_cache(maxsize=4096)
def _own_column(shown: str, own: str, column: int) -> int:
    """Where the token at `column` of the preprocessed line is in the line as the user wrote it.

    Tokens that both lines have are matched in order; a token that a macro brought in is placed at the macro's name.
    """
    if shown == own:
        return column
    shown_tokens = list(_TOKEN.finditer(shown))
    own_tokens = list(_TOKEN.finditer(own))
    index = sum(1 for token in shown_tokens if token.start() < column) - 1
    if index < 0 or not own_tokens:
        return column
    matcher = SequenceMatcher(None, [t.group() for t in shown_tokens], [t.group() for t in own_tokens], autojunk=False)
    for tag, first, last, own_first, _ in matcher.get_opcodes():
        if first <= index < last:
            position = own_first + (index - first if tag == "equal" else 0)
            return own_tokens[min(position, len(own_tokens) - 1)].start() + 1
    return column
