"""Runs of a verdict, and its exit."""

import os

from scripts.verdicts.runs import Runner


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
