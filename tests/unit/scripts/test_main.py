import subprocess
import sys

import pytest

from scripts import main
from scripts.console import CommandError
from scripts.engine import check_stack
from twin.paths import REPOSITORY


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "scripts.main", *arguments],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_help_lists_every_subcommand():
    answer = run("--help")
    assert answer.returncode == 0
    for name in main.COMMANDS:
        assert f" {name} " in answer.stdout


def test_a_stack_without_a_file_is_one_message_that_lists_the_stacks():
    with pytest.raises(CommandError, match=r"STACK: must be one of .*local.*, got 'prud'"):
        check_stack("prud")


def test_a_missing_option_is_refused_without_a_traceback():
    answer = run("preview")
    assert answer.returncode == 2
    assert "--stack" in answer.stderr
    assert "Traceback" not in answer.stderr
