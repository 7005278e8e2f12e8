"""Saturation in a process of its own, for rules that may grow without end.

The general rules are known to stay small. A row of an ISA file that makes, by way of other rules, what it takes itself
may not: an iteration of egglog cannot be interrupted, and may fill the memory. Such rules run in a process with a limit
on memory and, as a backstop, on time; it tells the graph whenever that has doubled, so that this counts if it ends.
The process starts when it is first needed, or before others are forked that share it, and is kept for what follows.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import pickle
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import IO

from dspgen.rewrite.egraph.engine import Engine
from dspgen.rewrite.egraph.saturate import Job, saturated
from dspgen.rewrite.graph.enodes import EGraph
from dspgen.rewrite.rules.table import Instance
from plant_core.support.fork_join import unstopped

MEGABYTES = 1024  # beyond what the process has before its first job
_SECONDS = 120  # of processor time, for one job
_WAIT = 5.0
_KEPT = 64  # answers
_MORE, _LAST = b"+", b"."  # whether another message follows for the same job
_NAME = 8  # bytes
_HEAD = 1 + _NAME + 8
_START = (
    "import sys; sys.path[:] = {path!r}; from dspgen.rewrite.egraph.saturation_process import serve; serve({megabytes})"
)


def may_grow(rules: Sequence[Instance], own: frozenset[str]) -> bool:
    """Whether one of the rules named in `own` takes up what `rules` make of its own results, or joins several terms."""
    return any(i.rule.name in own and (len(i.typed.left) > 1 or _takes_its_own(i, rules)) for i in rules)


def _takes_its_own(instance: Instance, rules: Sequence[Instance]) -> bool:
    made = {key[:2] for key in instance.makes}
    wanted = {key[:2] for key in instance.needs}
    # Other rules that take the same are there for it anyway.
    waiting = [i for i in rules if not any(key[:2] in wanted for key in i.needs)]
    while not made & wanted:
        fired = [i for i in waiting if any(key[:2] in made for key in i.needs)]
        if not fired:
            return False
        waiting = [i for i in waiting if i not in fired]
        made |= {key[:2] for i in fired for key in i.makes}
    return True


# -- this side


@dataclass(slots=True)
class _Worker:
    """Processes that are forked from the `owner` take turns with it by the `lock`; they can't end it."""

    process: subprocess.Popen[bytes]
    lock: IO[bytes]
    owner: int

    @staticmethod
    def start() -> _Worker:
        code = _START.format(path=sys.path, megabytes=MEGABYTES)
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return _Worker(process, tempfile.TemporaryFile(), os.getpid())

    @property
    def ours(self) -> bool:
        return self.owner == os.getpid()

    def ask(self, job: Job) -> tuple[EGraph | None, bool]:
        """The last graph that was told, and whether the process lived to say that it is the end."""
        with unstopped():
            return self._ask(job)

    def _ask(self, job: Job) -> tuple[EGraph | None, bool]:
        last, name = b"", os.urandom(_NAME)
        fcntl.lockf(self.lock, fcntl.LOCK_EX)
        try:
            _send(self.process.stdin, _LAST, name, job)
            mark, of = _MORE, name
            while mark != _LAST or of != name:
                mark, of, told = _receive(self.process.stdout)
                # Others may have asked before, and not lived to hear it.
                last = told if of == name else last
            return pickle.loads(last), True
        except (EOFError, OSError):
            return (pickle.loads(last) if last else None), False
        finally:
            fcntl.lockf(self.lock, fcntl.LOCK_UN)

    def stop(self) -> None:
        if not self.ours:
            return
        self.process.kill()
        self.process.wait(_WAIT)
        for stream in (self.process.stdin, self.process.stdout, self.lock):
            if stream is not None:
                stream.close()


_lock = threading.RLock()
_kept: list[_Worker] = []


def expect() -> None:
    """Start the process beside what is done here, where a job for it is likely to come."""
    with _lock:
        if _kept and _kept[0].ours and _kept[0].process.poll() is not None:
            _kept.pop().stop()  # what a forked process asked has ended it
        if not _kept:
            _kept.append(_Worker.start())


def saturated_apart(job: Job) -> EGraph:
    """As `egraph.saturated`, in the other process. Where that ends early: what it told last, with reason "memory"."""
    with _lock:
        expect()
        graph, alive = _kept[0].ask(job)
        if not alive and not _kept[0].ours:
            # What others asked may have ended it.
            _kept[0] = _Worker.start()
            graph, alive = _kept[0].ask(job)
        if not alive:
            _kept.pop().stop()
    if graph is None:
        graph = EGraph({i: (n,) for i, n in enumerate(job.nodes)}, tuple(range(len(job.nodes))), "none")
    return graph if alive else replace(graph, reason="memory")


@atexit.register
def stop() -> None:
    """End the process; another one is started when it is needed."""
    while _kept:
        _kept.pop().stop()


# -- the other side


def serve(megabytes: int) -> None:
    """Jobs from standard input until it ends; graphs to standard output, each with whether it is the job's last."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    Engine((), ())
    _limit_memory(megabytes)
    known: dict[Job, bytes] = {}  # processes beside each other ask the same

    def answer(job: Job, on_round: Callable[[EGraph], None]) -> bytes:
        if job not in known:
            if len(known) == _KEPT:
                del known[next(iter(known))]
            known[job] = pickle.dumps(saturated(job, on_round))
        return known[job]

    while True:
        try:
            _, name, job = _receive(source)
        except EOFError:
            return
        _limit_time()
        _write(sink, _LAST, name, answer(pickle.loads(job), partial(_send, sink, _MORE, name)))


def _limit_memory(megabytes: int) -> None:
    """So much more address space than there is now."""
    import resource

    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    most = pages * resource.getpagesize() + (megabytes << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _limit_time() -> None:
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + _SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _send(stream: IO[bytes] | None, mark: bytes, name: bytes, value: Job | EGraph) -> None:
    _write(stream, mark, name, pickle.dumps(value))


def _write(stream: IO[bytes] | None, mark: bytes, name: bytes, text: bytes) -> None:
    if stream is None:
        raise EOFError
    stream.write(mark + name + len(text).to_bytes(8, "little") + text)
    stream.flush()


def _receive(stream: IO[bytes] | None) -> tuple[bytes, bytes, bytes]:
    """The mark of a message, the name of its job, and its value as it was packed."""
    if stream is None or len(head := stream.read(_HEAD)) < _HEAD:
        raise EOFError
    size = int.from_bytes(head[1 + _NAME :], "little")
    if len(text := stream.read(size)) < size:
        raise EOFError
    return head[:1], head[1 : 1 + _NAME], text
