"""Runs of a verdict, and its exit."""

import os

from scripts.verdicts.runs import Runner, brief, reason


def test_what_a_thread_begins_after_the_end_is_ended_at_once(tmp_path):
    cli = tmp_path / "bin" / "pulumi"
    cli.parent.mkdir()
    cli.write_text("#!/bin/sh\nexec sleep 20\n")
    cli.chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    runner = Runner({"PATH": f"{cli.parent}:{os.environ['PATH']}"})
    runner.stop()
    assert runner.run(project, "up").returncode < 0
    assert runner.running == []


def test_an_error_of_a_program_has_its_place_instead_of_a_traceback():
    said = "error: No module named 'launcher'"
    trace = 'File "/usr/lib/runpy.py", line 2, in run File "/tmp/a/tree/infra/fleet.py", line 12'
    whole = f"{said} Traceback (most recent call last): {trace}, in <module> import launcher"
    assert brief(whole) == f"{said} (infra/fleet.py, line 12)"
    assert brief(said) == said


def test_the_place_of_an_error_is_the_last_one_in_the_checkout_however_long_the_trace_is():
    frames = [f'File "/tmp/a/tree/infra/step_{number}.py", line {number}' for number in range(14)]
    library = 'File "/usr/lib/site-packages/yaml/parser.py", line 3'
    lines = [line for frame in [*frames, library] for line in (frame, "  read()")]
    told = ["Diagnostics:", "error: no name", "Traceback (most recent call last):", *lines]
    assert reason("\n".join(told)) == "error: no name (infra/step_13.py, line 13)"
