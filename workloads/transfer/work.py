"""Runs the parts of a transfer in parallel, and stops all of them at the first error."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Protocol, TypeVar

from workloads.transfer.errors import Stopped

_T = TypeVar("_T")


class Progress(Protocol):
    """Receives the progress of a transfer, for a terminal or a log."""

    def begin(self, title: str, total: int, done: int = 0) -> None:
        """Begin a stage of `total` bytes, of which `done` need no work."""
        ...

    def add(self, count: int) -> None:
        """Count bytes that are done; called by several threads."""
        ...

    def say(self, line: str) -> None:
        """Show a line."""
        ...


class Silent:
    """Progress that nobody watches; it remembers the bytes of each stage."""

    def __init__(self) -> None:
        self.stages: dict[str, int] = {}
        self.lines: list[str] = []
        self._title = ""
        self._lock = threading.Lock()

    def begin(self, title: str, total: int, done: int = 0) -> None:
        """Begin a stage."""
        del total, done
        self._title = title
        self.stages[title] = 0

    def add(self, count: int) -> None:
        """Count bytes."""
        with self._lock:
            self.stages[self._title] += count

    def say(self, line: str) -> None:
        """Remember a line."""
        self.lines.append(line)


class Crew:
    """Threads that work on the parts of one transfer."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._stop = threading.Event()

    def check(self) -> None:
        """Return unless the transfer has to end; parts call it between two requests.

        Raises:
            Stopped: It has to.
        """
        if self._stop.is_set():
            raise Stopped("stopped before the end; run the same command again to continue")

    def run(self, tasks: Iterable[Callable[[], _T]]) -> list[_T]:
        """Run tasks and return their results in order.

        Raises:
            TransferError: The first error of a task; tasks that have not begun are dropped.
        """
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="transfer")
        try:
            futures = [pool.submit(self._guarded, task) for task in tasks]
            wait(futures, return_when=FIRST_EXCEPTION)
            failed = _first_error(futures)
            if failed is not None:
                raise failed
            return [future.result() for future in futures]
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _guarded(self, task: Callable[[], _T]) -> _T:
        self.check()
        return task()


def _first_error(futures: "list[Future[_T]]") -> BaseException | None:
    """Return the error that began it: those of tasks that were stopped come after it."""
    errors = [
        error
        for future in futures
        if future.done() and not future.cancelled() and (error := future.exception()) is not None
    ]
    return next(
        (each for each in errors if not isinstance(each, Stopped)), next(iter(errors), None)
    )
