"""Long work in C that an interrupt doesn't have to wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

Result = TypeVar("Result")


def apart(*works: Callable[[], Result]) -> list[Result]:
    """What each of `works` returns, or the first error. Each runs in a thread, which KeyboardInterrupt leaves behind.

    A signal reaches Python only between its own steps, so that a call of C in the main thread would have to end first.
    All of a threaded kernel's calls belong in one `work`: the OpenMP runtime keeps its threads for the one that calls.
    """
    outcomes = [_Outcome(work) for work in works]
    threads = [threading.Thread(target=outcome.run, daemon=True) for outcome in outcomes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [result for outcome in outcomes for result in outcome.results]


class _Outcome(Generic[Result]):
    """Keeps what is returned or raised, for the thread that waits."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self.work = work
        self.results: list[Result] = []
        self.error: BaseException | None = None

    def run(self) -> None:
        with self:
            self.results.append(self.work())

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self.error = error
        return True
