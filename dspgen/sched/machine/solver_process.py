"""Calls in a process of their own: the libraries of OR-Tools and of HiGHS define the same symbols in different
versions, so that one process can load either of them, and the rest of the compiler has loaded HiGHS."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import IO, Any, ParamSpec, TypeVar

from dspgen.errors import DspgenError, Problem

P = ParamSpec("P")
R = TypeVar("R")

# What is raised where it was asked for; after anything else the process is gone.
_TOLD = (ArithmeticError, ImportError, LookupError, RuntimeError, TypeError, ValueError)
_START = """
import sys
sys.path[:] = {path!r}
from dspgen.sched.machine.solver_process import serve
serve(sys.stdin.buffer, sys.stdout.buffer)
"""


def apart(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What a function of some module returns for these arguments, worked out in another process; all of it must be
    such as pickle takes. What it raises is raised here. Raises DspgenError (DG310) where that process just ends."""
    process = _process()
    assert process.stdin is not None and process.stdout is not None
    try:
        pickle.dump((function.__module__, function.__qualname__, args, kwargs), process.stdin)
        process.stdin.flush()
        result, error = pickle.load(process.stdout)
    except (EOFError, OSError, pickle.UnpicklingError):
        raise _ended(process) from None
    if error is not None:
        raise error
    found: R = result
    return found


def _ended(process: subprocess.Popen[bytes]) -> DspgenError:
    """The error to tell of a process that is gone; the next call starts another one."""
    _process.cache_clear()
    process.kill()
    status = process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    how = f"by signal {-status}" if status < 0 else f"with status {status}"
    remedy = "a solver that runs out of memory ends so: schedule without it"
    return DspgenError(Problem("DG310", f"the exact solver's process ended {how}, without an answer", None, remedy))


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer calls until there are none left."""
    while True:
        try:
            module, name, args, kwargs = pickle.load(requests)
        except EOFError:
            return
        answer: tuple[Any, Exception | None]
        try:
            answer = getattr(import_module(module), name)(*args, **kwargs), None
        except _TOLD as error:
            answer = None, error
        pickle.dump(answer, answers)
        answers.flush()


@cache
def _process() -> subprocess.Popen[bytes]:
    """The process, started once; it ends when this one closes its pipe."""
    start = _START.format(path=sys.path)
    return subprocess.Popen([sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
