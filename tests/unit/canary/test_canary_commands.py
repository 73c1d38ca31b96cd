"""What `canary run` refuses before it changes a share."""

import re

import pytest

from scripts.canary.command import run
from scripts.terminal.console import CommandError


def test_a_step_in_google_cloud_is_long_enough_for_its_metrics_to_arrive():
    message = "--hold: must be 5m or more with --cloud, where metrics arrive minutes late, got '4m'"
    with pytest.raises(CommandError, match=re.escape(message)):
        run("local", "any", hold="4m", patience="30m", cloud=True)
