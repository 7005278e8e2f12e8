"""Independent work of a bench on several cores, one process for each."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import TypeVar

from dspgen.errors import DspgenError, Problem
from plant_core.support.fork_join import limit_processes

Task = TypeVar("Task")
Result = TypeVar("Result")


def spread(
    work: Callable[[Task], Result], tasks: Sequence[Task], jobs: int, on_done: Callable[[Task], None]
) -> list[Result]:
    """What `work` makes of each task, in the order of the tasks; `on_done` is called as they end. With one job, here.

    With several, `work` is a function of a module and raises nothing. Raises DspgenError where a process dies.
    """
    if jobs == 1 or len(tasks) <= 1:
        return [_told(work(task), task, on_done) for task in tasks]
    with _processes(min(jobs, len(tasks))) as pool:
        futures = {pool.submit(work, task): k for k, task in enumerate(tasks)}
        found: dict[int, Result] = {}
        try:
            for future in as_completed(futures):
                k = futures[future]
                found[k] = _told(future.result(), tasks[k], on_done)
        except BrokenProcessPool:
            problem = Problem("DG516", "a process of this bench ended early", remedy="take fewer of them: --jobs 1")
            raise DspgenError(problem) from None
    return [found[k] for k in range(len(tasks))]


@contextmanager
def _processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """A pool whose processes end at once where an error or an interrupt ends the block."""
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), initializer=_uninterrupted)
    try:
        yield pool
        pool.shutdown()
    finally:  # of an error or an interrupt: some are at work still
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown(wait=False, cancel_futures=True)


def _uninterrupted() -> None:
    """The interrupt that a terminal sends to all processes is for the first one to act on; the cores are taken."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    limit_processes(1)


def _told(result: Result, task: Task, on_done: Callable[[Task], None]) -> Result:
    on_done(task)
    return result
