"""Independent parts of one computation, side by side in processes that are forked from this one.

What is found must not depend on how many processes there are: parts share nothing that they change. A library that
keeps threads of its own can't be used on both sides of a fork; `forks` tells.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

Result = TypeVar("Result")

_limit: list[int] = []  # processes at a time, where that was said
_forked: list[bool] = []


def limit_processes(number: int) -> None:
    """At most `number` at a time; 1 is this one."""
    _limit[:] = [number]


def forks() -> bool:
    """Whether this process was forked from another one, or others may be forked from it."""
    return bool(_forked) or _most() > 1


@contextmanager
def unstopped() -> Iterator[None]:
    """What is done here is done to its end, though nobody may want the result of this process any more."""
    if not _forked:
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _most() -> int:
    if not hasattr(os, "fork"):
        return 1
    return _limit[0] if _limit else len(os.sched_getaffinity(0))


def beside(parts: Sequence[Callable[[], Result]], vain: Callable[[Result], bool] | None = None) -> list[Result]:
    """What each part returns, which can be pickled. What raises in its process does so again in this one. Where a
    result tells that all are in `vain`, such a one is all that is returned, and the others are given up."""
    if _most() == 1 or len(parts) < 2:
        results: list[Result] = []
        for part in parts:
            results.append(part())
            if vain is not None and vain(results[-1]):
                return results[-1:]
        return results
    waiting = deque(range(len(parts)))
    running: dict[int, _Child] = {}  # by the pipe that the answer comes through
    answers: dict[int, bytes] = {}
    try:
        while waiting or running:
            while waiting and len(running) < _most():
                child = _start(waiting[0], parts[waiting.popleft()])
                running[child.pipe] = child
            for pipe in select.select(list(running), [], [])[0]:
                child = running.pop(pipe)
                answer = answers[child.number] = child.answer()
                if vain is not None and answer and vain(result := pickle.loads(answer)):
                    return [result]
    finally:
        for child in running.values():
            child.stop()
    return [pickle.loads(answers[k]) if answers[k] else part() for k, part in enumerate(parts)]


class Ahead(Generic[Result]):
    """One part that is begun before it is known whether its result is wanted: in a process beside this one, where
    there may be several, else when the result is asked for. What the part changes is lost in the other process."""

    def __init__(self, part: Callable[[], Result]) -> None:
        self._part = part
        self._child = _start(0, part) if _most() > 1 else None

    def result(self) -> Result:
        """What the part returns; where it raises, or that can't be pickled, it is done again here. Asked once."""
        child, self._child = self._child, None
        answer = b"" if child is None else child.answer()
        return pickle.loads(answer) if answer else self._part()

    def drop(self) -> None:
        """The result is not wanted any more."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()


@dataclass(frozen=True, slots=True)
class _Child:
    number: int  # of its part
    process: int
    pipe: int

    def answer(self) -> bytes:
        """Waits for its end; empty where it failed."""
        with open(self.pipe, "rb") as stream:
            answer = stream.read()
        _, status = os.waitpid(self.process, 0)
        return answer if status == 0 else b""

    def stop(self) -> None:
        """End it, once it does nothing that can't be left half done (see `unstopped`)."""
        os.close(self.pipe)
        os.kill(self.process, signal.SIGTERM)
        os.waitpid(self.process, 0)


def _start(number: int, part: Callable[[], object]) -> _Child:
    source, sink = os.pipe()
    process = os.fork()
    if process:
        os.close(sink)
        return _Child(number, process, source)
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(source)
        limit_processes(1)
        _forked.append(True)
        answer = pickle.dumps(part(), protocol=pickle.HIGHEST_PROTOCOL)
        with open(sink, "wb") as stream:
            stream.write(answer)
        status = 0
    finally:  # of an error, too, which is not told here
        os._exit(status)
