"""The end of a platform: what was interrupted is finished, and nothing is left."""

import pytest

from scripts.backend.twin_leftovers import leftovers
from twin.host import processes

pytestmark = pytest.mark.needs_tools


def test_a_destroy_interrupted_at_three_points_leaves_nothing_when_it_is_run_again(deployed):
    whole = deployed.resources()
    for share in (0.9, 0.6, 0.3):
        deployed.kill_when(
            lambda share=share: deployed.resources() <= share * whole,
            "destroy",
            "--yes",
            "--skip-preview",
            "-s",
            "local",
        )
        deployed.engine.ensure_stack("local")
    answer = deployed.cli("down")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "Nothing is left in the cloud." in answer.stdout
    assert not deployed.paths.root.exists()
    assert leftovers(deployed.paths) == []
    assert processes.running(deployed.paths) == {}
