"""Types beside clusters and networks: what replaces them, and which values they refuse."""

from typing import Any

import pytest

from twin.providers.gcp.checks.diff import changes
from twin.providers.gcp.checks.validate import validate_inputs
from twin.providers.gcp.schema import resource
from twin.wire.property_values import UNKNOWN

Inputs = dict[str, Any]
ACCESS = "gcp:bigquery/datasetAccess:DatasetAccess"
ENTRY = "gcp:certificatemanager/certificateMapEntry:CertificateMapEntry"
FEATURE = "gcp:gkehub/featureMembership:FeatureMembership"
IDENTITY = "gcp:projects/serviceIdentity:ServiceIdentity"
MEMBERS = (
    "gcp:binaryauthorization/attestorIamMember:AttestorIamMember",
    "gcp:cloudrunv2/serviceIamMember:ServiceIamMember",
    "gcp:containeranalysis/noteIamMember:NoteIamMember",
    "gcp:iap/webBackendServiceIamMember:WebBackendServiceIamMember",
)
MEMORYSTORE = "gcp:memorystore/instance:Instance"
POLICY = "gcp:compute/regionSecurityPolicy:RegionSecurityPolicy"
PROXY = "gcp:compute/targetHttpProxy:TargetHttpProxy"
SSL = "gcp:compute/regionSslPolicy:RegionSslPolicy"
TLS = "gcp:networksecurity/serverTlsPolicy:ServerTlsPolicy"
TRUST = "gcp:certificatemanager/trustConfig:TrustConfig"
UPTIME = "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig"
MONITORED = {"type": "uptime_url", "labels": {"host": "a.example", "project_id": "p"}}
MTLS = {"clientValidationMode": "REJECT_INVALID", "clientValidationTrustConfig": "t"}
ENTRY_INPUTS: Inputs = {"certificates": ["c"], "map": "m"}
UPTIME_INPUTS: Inputs = {"displayName": "d", "timeout": "10s", "monitoredResource": MONITORED}


def compare(token: str, old: Inputs, new: Inputs) -> dict[str, bool]:
    known = resource(token)
    assert known is not None
    return {each.path: each.replaces for each in changes(known, old, new)}


@pytest.mark.parametrize(
    ("token", "keys"),
    [
        *((token, ("member", "role")) for token in MEMBERS),
        (MEMBERS[0], ("attestor", "project")),
        (ENTRY, ("name", "project", "map", "matcher")),
        (TRUST, ("name", "project", "location")),
        (POLICY, ("name", "project", "region")),
        (SSL, ("name", "project", "region", "description")),
        (PROXY, ("name", "project", "description")),
        (FEATURE, ("feature", "location", "membership", "membershipLocation")),
        (IDENTITY, ("project", "service")),
        (TLS, ("name", "project")),
        (UPTIME, ("project",)),
    ],
)
def test_a_changed_identity_replaces(token: str, keys: tuple[str, ...]) -> None:
    replaced = {key: compare(token, {key: "a"}, {key: "b"}) for key in keys}
    unknown = {key: compare(token, {key: "a"}, {key: UNKNOWN}) for key in keys}
    assert replaced == unknown == {key: {key: True} for key in keys}


@pytest.mark.parametrize(
    ("token", "old", "new", "expected"),
    [
        (MEMBERS[0], {"condition": {"title": "a"}}, {}, {"condition": True}),
        (PROXY, {"httpKeepAliveTimeoutSec": 5}, {}, {"httpKeepAliveTimeoutSec": True}),
        (PROXY, {"proxyBind": False}, {"proxyBind": True}, {"proxyBind": True}),
        (
            UPTIME,
            {"monitoredResource": MONITORED},
            {"monitoredResource": {**MONITORED, "labels": {"host": "b.example"}}},
            {"monitoredResource.labels.host": True},
        ),
        (TLS, {"mtlsPolicy": MTLS}, {}, {"mtlsPolicy": True}),
        (
            TLS,
            {"mtlsPolicy": MTLS},
            {"mtlsPolicy": {**MTLS, "clientValidationTrustConfig": "u"}},
            {"mtlsPolicy.clientValidationTrustConfig": True},
        ),
        (POLICY, {"type": "CLOUD_ARMOR"}, {}, {"type": True}),
        *(
            (token, {"labels": {"a": "b", "c": "d"}}, {"labels": {"a": "b"}}, {"labels.c": False})
            for token in (ENTRY, TRUST, TLS)
        ),
        (ENTRY, {"labels": {"a": "b"}}, {}, {"labels": False}),
        (TRUST, {"trustStores": [{"trustAnchors": []}]}, {}, {"trustStores": False}),
        (
            SSL,
            {"minTlsVersion": "TLS_1_2", "profile": "MODERN"},
            {},
            {"minTlsVersion": False, "profile": False},
        ),
        (POLICY, {"description": "a"}, {"description": "b"}, {"description": False}),
        (UPTIME, {"httpCheck": {"path": "/"}}, {}, {"httpCheck": False}),
        (FEATURE, {"configmanagement": {"version": "1"}}, {}, {"configmanagement": False}),
        (UPTIME, {"httpCheck": {"path": "/a"}}, {"httpCheck": {"path": "a"}}, {}),
        (
            ENTRY,
            {"certificates": ["projects/7/locations/global/certificates/c"]},
            {"certificates": ["projects/p/locations/global/certificates/c"]},
            {},
        ),
        (ACCESS, {"role": "READER"}, {"role": "roles/bigquery.dataViewer"}, {}),
        (
            MEMORYSTORE,
            {"zoneDistributionConfig": {"mode": "MULTI_ZONE"}},
            {"zoneDistributionConfig": {"mode": "SINGLE_ZONE"}},
            {"zoneDistributionConfig.mode": False},
        ),
        (
            MEMORYSTORE,
            {"desiredAutoCreatedEndpoints": [{"network": "a", "projectId": "p"}]},
            {"desiredAutoCreatedEndpoints": [{"network": "b", "projectId": "p"}]},
            {},
        ),
    ],
)
def test_a_changed_property_is_seen_as_the_provider_sees_it(
    token: str, old: Inputs, new: Inputs, expected: dict[str, bool]
) -> None:
    assert compare(token, old, new) == expected


@pytest.mark.parametrize(
    ("token", "inputs", "path"),
    [
        *((token, {"member": "Bogus Value!", "role": "r"}, "member") for token in MEMBERS),
        (SSL, {"minTlsVersion": "tls_1_2"}, "minTlsVersion"),
        (SSL, {"profile": "OLD"}, "profile"),
        (SSL, {"postQuantumKeyExchange": "ON"}, "postQuantumKeyExchange"),
        (POLICY, {"type": "FIREWALL"}, "type"),
        (
            POLICY,
            {"ddosProtectionConfig": {"ddosProtection": "SOME"}},
            "ddosProtectionConfig.ddosProtection",
        ),
        (POLICY, {"userDefinedFields": [{"base": "IP"}]}, "userDefinedFields[0].base"),
        (
            POLICY,
            {"rules": [{"action": "a", "priority": 1, "match": {"versionedExpr": "X"}}]},
            "rules[0].match.versionedExpr",
        ),
        (
            POLICY,
            {"rules": [{"action": "a", "priority": 1, "rateLimitOptions": {"enforceOnKey": "X"}}]},
            "rules[0].rateLimitOptions.enforceOnKey",
        ),
        (ENTRY, {**ENTRY_INPUTS, "hostname": "h", "matcher": "PRIMARY"}, "hostname"),
        (ENTRY, ENTRY_INPUTS, "hostname"),
        (UPTIME, {**UPTIME_INPUTS, "httpCheck": {"requestMethod": "X"}}, "httpCheck.requestMethod"),
        (UPTIME, {**UPTIME_INPUTS, "httpCheck": {"contentType": "X"}}, "httpCheck.contentType"),
        (UPTIME, {**UPTIME_INPUTS, "checkerType": "X"}, "checkerType"),
        (UPTIME, {**UPTIME_INPUTS, "httpCheck": {}}, "httpCheck"),
        (UPTIME, {"displayName": "d", "timeout": "10s"}, "monitoredResource"),
        (
            UPTIME,
            {**UPTIME_INPUTS, "resourceGroup": {"resourceType": "INSTANCE"}},
            "monitoredResource",
        ),
        (
            UPTIME,
            {**UPTIME_INPUTS, "httpCheck": {"authInfo": {"username": "u"}}},
            "httpCheck.authInfo",
        ),
    ],
)
def test_a_value_that_the_provider_refuses_is_refused(
    token: str, inputs: Inputs, path: str
) -> None:
    assert path in {failure.path for failure in validate_inputs(token, inputs)}


def test_an_empty_mode_of_memorystore_is_accepted() -> None:
    inputs = {"instanceId": "i", "location": "l", "shardCount": 1, "mode": ""}
    assert validate_inputs(MEMORYSTORE, {**inputs, "serverCaMode": ""}) == []
