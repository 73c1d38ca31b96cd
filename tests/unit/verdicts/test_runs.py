"""Runs of a verdict, and its exit."""

import os

from scripts.verdicts.runs import Runner, brief


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
