"""All runs of a benchmark, distributed to workers."""

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from bench.laboratory.policies import BASELINE, policies
from bench.laboratory.rows import Row
from bench.laboratory.worker import Job
from simulator.replays.workloads import Workload
from twin.host.paths import REPOSITORY

_LOG_TAIL = 1500
_STOP_SECONDS = 30


class SessionError(Exception):
    """A run failed; the message names the run and the reason."""


def jobs_of(
    chosen: Iterable[Workload], names: Iterable[str] | None, *, is_quick: bool
) -> list[Job]:
    """Return the runs of some workloads, longest first.

    Args:
        chosen: selected workloads.
        names: names of policies; None for all.
        is_quick: whether to use one seed and short stages.
    """
    wanted = None if names is None else set(names)
    jobs: list[tuple[float, Job]] = []
    for workload in chosen:
        stages = workload.quick_stages if is_quick else workload.stages
        size = sum(stage.rate * stage.seconds for stage in stages)
        for policy in policies(workload.facts):
            if wanted is not None and policy.name not in wanted:
                continue
            cost = size * (1.0 if policy.picker is None else 1.5)
            seeds = workload.seeds[:1] if is_quick else workload.seeds
            jobs += [(cost, Job(workload.name, policy.name, s, is_quick)) for s in seeds]
            if policy.picker is not None and not is_quick:
                few = workload.picker_stages
                jobs += [
                    (cost / 2, Job(workload.name, policy.name, seed, stages=few))
                    for seed in workload.picker_seeds
                ]
    return [
        job for _, job in sorted(jobs, key=lambda entry: (-entry[0], entry[1].policy == BASELINE))
    ]


def run_all(jobs: Iterable[Job], workers: int, tell: Callable[[Job, list[Row]], None]) -> list[Row]:
    """Run all jobs and return their rows.

    Args:
        jobs: jobs in order.
        workers: number of worker processes.
        tell: called after each job, from one thread at a time.

    Raises:
        SessionError: a run failed; the others still complete.
    """
    session = _Session(tell)
    listed = list(jobs)
    for job in listed:
        session.waiting.put(job)
    with tempfile.TemporaryDirectory(prefix="lab-", ignore_cleanup_errors=True) as temporary:
        threads: list[threading.Thread] = []
        for number in range(min(workers, len(listed))):
            folder = Path(temporary) / str(number)
            folder.mkdir()
            threads.append(threading.Thread(target=session.work, args=(folder,)))
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # Ctrl-C ends the workers, too: no others may follow them
            session.give_up()
            for thread in threads:
                thread.join()
            raise
    if session.failures:
        raise SessionError("; ".join(session.failures))
    if not session.waiting.empty():
        raise SessionError("no worker came up")
    return session.rows


class _Session:
    """Shared state of a session's threads, each of which has its own worker."""

    def __init__(self, tell: Callable[[Job, list[Row]], None]) -> None:
        self.waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self.rows: list[Row] = []
        self.failures: list[str] = []
        self._tell = tell
        self._lock = threading.Lock()

    def work(self, folder: Path) -> None:
        """Run jobs until none is left."""
        with _Worker(folder) as worker:
            while True:
                try:
                    job = self.waiting.get_nowait()
                except queue.Empty:
                    return
                self._one(worker, job)

    def give_up(self) -> None:
        """Cancel the jobs that have not started."""
        while not self.waiting.empty():
            with suppress(queue.Empty):
                self.waiting.get_nowait()

    def _one(self, worker: "_Worker", job: Job) -> None:
        try:
            found = worker.do(job)
        except SessionError as error:
            with self._lock:
                self.failures.append(f"{job.workload}, {job.policy}, seed {job.seed}: {error}")
            return
        with self._lock:
            self.rows.extend(found)
            self._tell(job, found)


class _Worker:
    """A worker process; a failed job starts a new one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[str] | None = None
        self._starts = 0

    def __enter__(self) -> "_Worker":
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.terminate()
            self._process.wait()
        self._process = None

    def _start(self) -> subprocess.Popen[str]:
        self._starts += 1
        folder = self._folder / str(self._starts)
        folder.mkdir()
        self._log = self._folder / f"worker-{self._starts}.log"
        with self._log.open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "bench.laboratory.worker", str(folder)],
                cwd=REPOSITORY,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def do(self, job: Job) -> list[Row]:
        """Run a job.

        Raises:
            SessionError: the job failed.
        """
        if self._process is None:
            self._process = self._start()
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise SessionError("the worker has no pipes")
        try:
            process.stdin.write(job.line() + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.__exit__()
            raise SessionError(f"the worker ended: {self._log.read_text()[-_LOG_TAIL:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise SessionError(f"{answer['error']}: {self._log.read_text()[-_LOG_TAIL:]}")
        rows: list[Row] = answer["rows"]
        return rows
