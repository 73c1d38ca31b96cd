"""The file that brings an existing platform under a stack."""

from typing import Any

import pytest

from scripts.operate.import_file import KINDS, IdError, import_file
from twin.wire.property_values import UNKNOWN

URN = "urn:pulumi:local::gke-inference::"
STACK = f"{URN}pulumi:pulumi:Stack::gke-inference-local"
PROVIDER = f"{URN}pulumi:providers:gcp::default_10_2_0::id"


def state(token: str, logical: str, parent: str = STACK, /, **inputs: Any) -> dict[str, Any]:
    """Return the state of a resource of the project acme, as a preview has it."""
    return {
        "inputs": {"project": "acme", **inputs},
        "parent": parent,
        "provider": PROVIDER,
        "type": token,
        "urn": f"{URN}{token}::{logical}",
    }


COMPONENT = state("gke-inference:index:Network", "network")
NETWORK = state("gcp:compute/network:Network", "network", COMPONENT["urn"], name="net")
ROUTER = state(
    "gcp:compute/router:Router", "network-r", COMPONENT["urn"], name="r", region="us-east5"
)
ALERT = state("gcp:monitoring/alertPolicy:AlertPolicy", "alert")


def test_a_resource_is_in_the_file_below_its_component() -> None:
    file = import_file([COMPONENT, NETWORK, ROUTER, ALERT], ["network"])
    assert file == {
        "nameTable": {},
        "resources": [
            {
                "component": True,
                "logicalName": "network",
                "name": "gke-inference-Network-network",
                "type": "gke-inference:index:Network",
            },
            {
                "id": "projects/acme/global/networks/net",
                "logicalName": "network",
                "name": "gcp-Network-network",
                "parent": "gke-inference-Network-network",
                "type": "gcp:compute/network:Network",
                "version": "10.2.0",
            },
        ],
    }


@pytest.mark.parametrize(
    ("token", "inputs", "identifier"),
    [
        (
            "gcp:container/nodePool:NodePool",
            {"name": "system", "location": "us-east5", "cluster": "c"},
            "projects/acme/locations/us-east5/clusters/c/nodePools/system",
        ),
        (
            "gcp:compute/routerNat:RouterNat",
            {"name": "nat", "region": "us-east5", "router": "r"},
            "acme/us-east5/r/nat",
        ),
        ("gcp:storage/bucket:Bucket", {"name": "weights"}, "weights"),
        (
            "gcp:serviceaccount/account:Account",
            {"accountId": "nodes"},
            "projects/acme/serviceAccounts/nodes@acme.iam.gserviceaccount.com",
        ),
    ],
)
def test_an_id_has_the_form_that_the_provider_imports(
    token: str, inputs: dict[str, str], identifier: str
) -> None:
    (found,) = import_file([state(token, "it", **inputs)], KINDS)["resources"]
    assert found["id"] == identifier


def test_what_is_only_read_is_left_out() -> None:
    assert import_file([{**NETWORK, "external": True}], KINDS)["resources"] == []


def test_an_id_that_a_preview_does_not_know_is_refused() -> None:
    pool = state("gcp:container/nodePool:NodePool", "p", name="p", location="l", cluster=UNKNOWN)
    with pytest.raises(IdError, match=r"^p\.cluster: must be known in a preview, as the"):
        import_file([pool], KINDS)
