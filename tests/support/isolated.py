"""Functions that run in a process of their own, forked from this one, with limits on time and memory.

Imports are shared, so a run costs a fork; whatever it does, crash, hang or fill the memory, this process goes on.
It may have no threads. The whole session of the process is ended at the limit, its compilers with it.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

GIGABYTES = 8
WAITS = 6  # times its seconds of processor time a run may take on the clock, on a computer that has other work
_END_WITH_PARENT = 1  # prctl's PR_SET_PDEATHSIG


@dataclass(slots=True)
class Child:
    """A run that is under way. `result` is None until it has ended; then what it returned, or how it ended."""

    process: int
    pipe: int
    until: float
    answer: bytearray = field(default_factory=bytearray)

    @staticmethod
    def start(work: Callable[[], Any], seconds: float, waits: int = WAITS) -> Child:
        """`seconds` are of processor time, and `waits` times as many on the clock."""
        source, sink = os.pipe()
        process = os.fork()
        if process:
            os.close(sink)
            return Child(process, source, time.monotonic() + waits * seconds)
        status = 1
        try:
            os.setsid()
            ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
            os.close(source)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(silent, stream)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if waits > 1:
                resource.setrlimit(resource.RLIMIT_CPU, (int(seconds), int(seconds) + 5))
            answer = pickle.dumps(work(), protocol=pickle.HIGHEST_PROTOCOL)
            with open(sink, "wb") as stream_out:
                stream_out.write(answer)
            status = 0
        finally:
            os._exit(status)

    def read(self) -> bool:
        """Take what it has written; whether it has ended."""
        part = os.read(self.pipe, 1 << 16)
        self.answer += part
        return not part

    def is_large(self) -> bool:
        """Whether it holds too much memory; what it has only reserved, as simulators do, doesn't count."""
        try:
            with open(f"/proc/{self.process}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * resource.getpagesize() > GIGABYTES << 30
        except OSError:
            return False

    def stop(self) -> None:
        try:
            os.killpg(self.process, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def end(self, stopped: str = "") -> Ended:
        """Wait for it, or stop it for this reason, and end what it has left behind."""
        if stopped:
            self.stop()
        _, status = os.waitpid(self.process, 0)
        self.stop()
        os.close(self.pipe)
        if stopped:
            return Ended(None, stopped)
        if status == 0 and self.answer:
            return Ended(pickle.loads(self.answer), "")
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU:
            return Ended(None, "late")
        if os.WIFSIGNALED(status):
            return Ended(None, f"signal {os.WTERMSIG(status)}")
        return Ended(None, f"exit status {os.WEXITSTATUS(status)}")


@dataclass(frozen=True, slots=True)
class Ended:
    """`how` is empty for a run that came to its end, "late" or "memory" for one stopped at a limit, else tells the
    signal."""

    result: Any
    how: str


def wait(children: list[Child], seconds: float) -> list[tuple[Child, Ended]]:
    """Those that end within so many seconds, at least one of them if it does; each is taken from the list."""
    until = time.monotonic() + seconds
    ended: list[tuple[Child, Ended]] = []
    while children and not ended:
        now = time.monotonic()
        nearest = min(min(c.until for c in children), until, now + 1.0)
        ready = select.select([c.pipe for c in children], [], [], max(nearest - now, 0.0))[0]
        now = time.monotonic()
        for child in list(children):
            over = child.pipe in ready and child.read()
            stopped = "" if over else "late" if now >= child.until else "memory" if child.is_large() else ""
            if over or stopped:
                children.remove(child)
                ended.append((child, child.end(stopped)))
        if now >= until:
            break
    return ended


def isolated(work: Callable[[], Any], seconds: float) -> Ended:
    """One run, waited for."""
    children = [Child.start(work, seconds)]
    while True:
        if ended := wait(children, WAITS * seconds + 1.0):
            return ended[0][1]
