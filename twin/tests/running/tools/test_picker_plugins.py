"""The picker's plugins for prefill and decode replicas: their own tests, in Go."""

import os
import subprocess

import pytest

from twin.toolchain import modules, tool
from twin.toolchain.gobuild import find_go

pytestmark = [pytest.mark.needs_tools, pytest.mark.timeout(900)]


def test_the_plugins_of_disaggregated_pools_pass_their_own_tests():
    go = find_go(lambda *_: None)
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    # -trimpath: what the tool's own build compiled is not compiled again
    ran = subprocess.run(
        [go, "test", "-trimpath", "-v", "./..."],
        cwd=modules()["picker"].folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("--- PASS") >= 8, ran.stdout


def test_the_picker_knows_the_plugins_beside_upstreams_own():
    ran = subprocess.run([tool("pd-epp"), "--help"], capture_output=True, text=True, check=False)
    assert "-config-file" in ran.stderr
