"""Properties that Google fixes at creation although its provider updates them in place."""

from typing import Any, cast

import pytest

from twin.providers.gcp.checks.diff import changes
from twin.providers.gcp.checks.fixed import FIXED, check_fixed, check_used_ranges
from twin.providers.gcp.schema import resource, tokens
from twin.tests.unit.gcp.conftest import Refused
from twin.wire.property_values import UNKNOWN, CloudError

Inputs = dict[str, Any]
NETWORK = "gcp:compute/network:Network"
POOL = "gcp:iam/workloadIdentityPool:WorkloadIdentityPool"
SUBNETWORK = "gcp:compute/subnetwork:Subnetwork"
TLS = "gcp:networksecurity/serverTlsPolicy:ServerTlsPolicy"
PODS = {"rangeName": "pods", "ipCidrRange": "10.8.0.0/14"}
SPARE = {"rangeName": "spare", "ipCidrRange": "10.4.0.0/20"}
SUBNET: Inputs = {
    "name": "nodes",
    "project": "acme",
    "region": "us-east5",
    "secondaryIpRanges": [PODS, SPARE],
}
CLUSTER: Inputs = {
    "name": "c",
    "project": "acme",
    "location": "us-east5",
    "subnetwork": "projects/acme/regions/us-east5/subnetworks/nodes",
    "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods"},
}


def refusal(token: str, old: Inputs, new: Inputs) -> str:
    known = resource(token)
    assert known is not None
    try:
        check_fixed(known, old, new)
    except CloudError as error:
        return str(error)
    return ""


def nested(path: str, value: str) -> Inputs:
    """Return inputs with a value at a path such as `timeWindow.endTime`."""
    found: Any = value
    for part in reversed(path.split(".")):
        found = cast("Any", {part: found})
    return found


def test_the_table_has_only_properties_that_the_provider_updates_in_place() -> None:
    kinds = {token.split(":")[1]: token for token in tokens()}
    assert set(FIXED) <= set(kinds)
    for kind, properties in FIXED.items():
        known = resource(kinds[kind])
        assert known is not None
        for name, fixed in properties.items():
            found = changes(known, nested(name, "1"), nested(name, "2"))
            assert [(each.path, each.replaces) for each in found] == [(name, False)]
            assert fixed.source


@pytest.mark.parametrize(
    ("token", "old", "new", "message"),
    [
        (SUBNETWORK, {}, {"purpose": "PRIVATE_SERVICE_CONNECT"}, "cannot be modified: [purpose]"),
        (SUBNETWORK, {"purpose": "PRIVATE"}, {}, ""),
        (SUBNETWORK, {"purpose": "PRIVATE"}, {"purpose": UNKNOWN}, ""),
        (SUBNETWORK, {"purpose": "PEER_MIGRATION"}, {"purpose": "PRIVATE"}, ""),
        (SUBNETWORK, {"purpose": "PRIVATE"}, {"purpose": "PEER_MIGRATION"}, "[purpose]"),
        (
            SUBNETWORK,
            {"purpose": "INTERNAL_HTTPS_LOAD_BALANCER"},
            {"purpose": "REGIONAL_MANAGED_PROXY"},
            "",
        ),
        (SUBNETWORK, {}, {"ipv6AccessType": "EXTERNAL"}, ""),
        (
            SUBNETWORK,
            {"ipv6AccessType": "INTERNAL"},
            {"ipv6AccessType": "EXTERNAL"},
            "[ipv6AccessType]",
        ),
        (POOL, {}, {"mode": "FEDERATION_ONLY"}, ""),
        (POOL, {}, {"mode": "TRUST_DOMAIN"}, "cannot be modified: [mode]"),
        (TLS, {"location": "global"}, {"location": "us-east5"}, "Error 404: location is fixed"),
    ],
)
def test_a_change_of_a_fixed_property_is_refused_unless_google_allows_it(
    token: str, old: Inputs, new: Inputs, message: str
) -> None:
    found = refusal(token, old, new)
    assert message in found
    assert bool(message) == bool(found)


@pytest.mark.parametrize(
    ("ranges", "cluster", "is_refused"),
    [
        ([PODS, SPARE], {}, False),
        ([SPARE, PODS], {}, False),
        ([PODS], {}, False),
        ([SPARE], {}, True),
        ([{**PODS, "ipCidrRange": "10.12.0.0/14"}, SPARE], {}, True),
        (UNKNOWN, {}, False),
        ([{**PODS, "ipCidrRange": UNKNOWN}, SPARE], {}, False),
        ([SPARE], {"location": "us-east1"}, False),
        ([SPARE], {"location": "us-east50"}, False),
        ([SPARE], {"project": "other", "subnetwork": "nodes"}, False),
        ([SPARE], {"location": "us-east5-a", "subnetwork": "nodes"}, True),
    ],
)
def test_a_range_that_a_cluster_uses_is_neither_changed_nor_removed(
    ranges: Any, cluster: Inputs, is_refused: bool
) -> None:
    changed = {**SUBNET, "secondaryIpRanges": ranges}
    if not is_refused:
        check_used_ranges(SUBNET, changed, [{**CLUSTER, **cluster}])
        return
    with pytest.raises(CloudError, match="The range is used by cluster c"):
        check_used_ranges(SUBNET, changed, [{**CLUSTER, **cluster}])


def test_a_preview_refuses_what_an_update_would(cloud: Any) -> None:
    cloud.create(NETWORK, "n", {"name": "n", "autoCreateSubnetworks": False})
    given = {"network": "n", "region": "us-east5", "ipCidrRange": "10.0.0.0/20"}
    made = cloud.create(SUBNETWORK, "s", {**given, "name": "s"})
    changed = {**given, "name": "s", "purpose": "PRIVATE_SERVICE_CONNECT"}
    for preview in (True, False):
        with pytest.raises(Refused, match="cannot be modified"):
            cloud.update(made, changed, preview=preview)
