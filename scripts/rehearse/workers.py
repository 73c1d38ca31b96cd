"""Where the rehearsals of a sweep run: processes of this machine, or a Ray cluster.

Each rehearsal gets the same requests, so the results do not depend on where and in which order
rehearsals run.
"""

import multiprocessing
import os
import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, cast

from scripts.rehearse.measured import Measured, measured
from scripts.terminal.console import CommandError, one_line
from simulator.demand.arrivals import Traffic
from simulator.rehearsal.description import Platform

LOCAL = "local"
"""Address of Ray on this machine alone."""
Done = Callable[[], None]
"""Called after each rehearsal."""


class Workers(Protocol):
    """Runs rehearsals."""

    @property
    def title(self) -> str:
        """Where they run."""
        ...

    def run(self, platforms: Sequence[Platform], traffic: Traffic, done: Done) -> list[Measured]:
        """Rehearse platforms under the same traffic; results are in the order of platforms."""
        ...


class Processes:
    """Processes of this machine, one per core."""

    def __init__(self, count: int | None = None) -> None:
        self._count = count or len(os.sched_getaffinity(0))

    @property
    def title(self) -> str:
        """Where they run."""
        return f"{self._count} processes"

    def run(self, platforms: Sequence[Platform], traffic: Traffic, done: Done) -> list[Measured]:
        """Rehearse platforms: see `Workers`."""
        count = min(self._count, len(platforms))
        if count < 2:
            return [_counted(each, traffic, done) for each in platforms]
        # a forked process shares the traffic's memory
        method = "fork" if sys.platform == "linux" else "spawn"
        pool = ProcessPoolExecutor(
            count, multiprocessing.get_context(method), initializer=_take, initargs=(traffic,)
        )
        with pool:
            futures = [pool.submit(_of_taken, each) for each in platforms]
            for each in futures:
                each.add_done_callback(lambda _: done())
            return [each.result() for each in futures]


def _counted(platform: Platform, traffic: Traffic, done: Done) -> Measured:
    found = measured(platform, traffic)
    done()
    return found


_taken: list[Traffic] = []
"""The traffic of a process."""


def _take(traffic: Traffic) -> None:
    _taken[:] = [traffic]


def _of_taken(platform: Platform) -> Measured:
    return measured(platform, _taken[0])


class Ray:
    """Tasks of a Ray cluster; each takes one CPU."""

    def __init__(self, ray: Any, address: str) -> None:
        self._ray = ray
        self._address = address

    @property
    def title(self) -> str:
        """Where they run."""
        cores = self._ray.cluster_resources().get("CPU", 0)
        return f"Ray at {self._address}, {cores:g} CPUs"

    def run(self, platforms: Sequence[Platform], traffic: Traffic, done: Done) -> list[Measured]:
        """Rehearse platforms: see `Workers`."""
        task = self._ray.remote(measured).options(num_cpus=1)
        stored = self._ray.put(traffic)
        waiting = [task.remote(each, stored) for each in platforms]
        places = {each: at for at, each in enumerate(waiting)}
        found: dict[int, Measured] = {}
        while waiting:
            ready, waiting = self._ray.wait(waiting, num_returns=1)
            for each in ready:
                try:
                    found[places[each]] = self._ray.get(each)
                except self._ray.exceptions.RayError as error:
                    reason = one_line(str(cast("Exception", error)))[-300:]
                    raise CommandError(
                        f"--ray: must have this checkout and its packages, got {self._address!r}: "
                        f"{reason}"
                    ) from None
                done()
        return [found[at] for at in range(len(platforms))]


@contextmanager
def workers(address: str | None) -> Generator[Workers]:
    """Yield processes of this machine, or the tasks of a Ray cluster.

    Args:
        address: Address of the cluster, such as `ray://HOST:10001`; `local` starts Ray on this
            machine. None: processes.

    Raises:
        CommandError: Ray is not installed, or the cluster does not answer.
    """
    if address is None:
        yield Processes()
        return
    try:
        import ray  # noqa: PLC0415 - an optional extra
    except ImportError:
        raise CommandError(
            f"--ray: must be omitted without the package ray, got {address!r}: "
            "pip install 'gke-inference[ray]'"
        ) from None
    started: Any = ray
    try:
        if address == LOCAL:
            started.init(
                address="local", include_dashboard=False, log_to_driver=False,
                logging_level="ERROR", _node_ip_address="127.0.0.1",
            )  # fmt: skip
        else:
            started.init(address=address, log_to_driver=False, logging_level="ERROR")
    except Exception as error:  # noqa: BLE001 - Ray raises errors of many kinds
        reason = one_line(str(error))[:300]
        raise CommandError(f"--ray: must be a Ray cluster, got {address!r}: {reason}") from None
    try:
        yield Ray(started, address)
    finally:
        started.shutdown()
