"""A region of three is lost under traffic from all of them, and comes back."""

import json
import re

import pytest

from tests.platform.example_checkout import checkout, output_of
from twin import daemon
from twin.host import processes
from twin.host.paths import TwinPaths

pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1800)]

STACK = ("--stack", "three-regions")


def test_requests_are_answered_elsewhere_and_none_is_lost(tmp_path, record_property):
    folder, paths = checkout(tmp_path / "checkout", "three-regions"), TwinPaths(tmp_path / "twin")
    try:
        printed = output_of(folder, paths, "up", *STACK, "--scenario", "region-loss")
        output_of(folder, paths, "down", *STACK)
    finally:
        daemon.shut_down(paths)
    assert processes.running(paths) == {}
    (file,) = tmp_path.rglob("traffic.json")
    traffic = json.loads(file.read_text())
    assert traffic["lost"] == 0
    assert traffic["sent"] == 20 * 140
    assert traffic["refused"] <= 0.01 * traffic["sent"]
    assert traffic["answered"] == traffic["sent"] - traffic["refused"]
    answers = [int(number) for number in re.findall(r"^ +(\d+) by qwen3", printed, re.MULTILINE)]
    assert len(answers) == 4  # a replica in each region, and the one that came back
    assert min(answers) > 0
    record_property("figures", f"{traffic['answered']} answered, {traffic['refused']} refused")
