"""The end of a platform: what was interrupted is finished, and nothing is left."""

import pytest

from scripts.backend.twin_leftovers import leftovers
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.world.store import Store, Use, list_resources, new_record

pytestmark = pytest.mark.needs_tools

NETWORK = "gcp:compute/network:Network"
GROUP = "gcp:compute/networkEndpointGroup:NetworkEndpointGroup"


def leave_an_endpoint_group(paths: TwinPaths) -> str:
    """Add an endpoint group of the network, as a cluster leaves one that is deleted too early."""
    (network,) = (row for row in list_resources(paths) if row.type == NETWORK)
    path = f"projects/{network.project}/zones/us-central1-b/networkEndpointGroups/k8s1-left"
    group = new_record(GROUP, path, "k8s1-left", network.project, "", {}, {"name": "k8s1-left"})
    store = Store(paths.cloud_db)
    assert store.add(group, [Use(NETWORK, network.id, blocks=True)]) is None
    store.set(GROUP, path, status="ready", acknowledged=True)
    return path


@pytest.mark.parametrize(
    "shares",
    [
        pytest.param((0.9,), id="once"),
        pytest.param((0.9, 0.6, 0.3), id="three times", marks=pytest.mark.soak),
    ],
)
def test_an_interrupted_destroy_leaves_nothing_when_it_is_run_again(deployed, shares):
    whole = deployed.resources()
    left = ""
    for share in shares:
        deployed.kill_when(
            lambda share=share: deployed.resources() <= share * whole, "down", "--stack", "local"
        )
        left = left or leave_an_endpoint_group(deployed.paths)
    answer = deployed.cli("down")
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert f"is already being used by '{left}'" in answer.stdout
    assert f"Removed a leftover of a cluster: {GROUP} {left}, made by GKE." in answer.stdout
    assert "Nothing is left in the cloud." in answer.stdout
    assert not deployed.paths.root.exists()
    assert leftovers(deployed.paths) == []
    assert processes.running(deployed.paths) == {}
