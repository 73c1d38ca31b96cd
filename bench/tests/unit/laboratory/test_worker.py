"""A worker of the laboratory and its session speak over the worker's output."""

import json
import subprocess
import sys

from bench.laboratory.worker import Job
from twin.host.paths import REPOSITORY

LOUD = """
import contextlib, logging
from bench.laboratory import worker

def do(rig, job):
    logging.getLogger("asyncio").error("unhandled %s", "x" * 1000)
    print("and more")
    return []

worker.Rig = lambda folder: contextlib.nullcontext()
worker.do = do
worker.main()
"""


def test_what_a_run_logs_and_prints_is_never_among_the_answers():
    asked = Job("mixed_lengths", "round_robin", 1).line() + "\n"
    answer = subprocess.run(
        [sys.executable, "-c", LOUD, "folder"],
        cwd=REPOSITORY,
        input=asked * 2,
        capture_output=True,
        text=True,
        check=True,
    )
    assert [json.loads(line) for line in answer.stdout.splitlines()] == [{"rows": []}] * 2
    assert answer.stderr.count("unhandled") == 2
