"""Outputs of created and planned resources."""

import re
from typing import Any

import pytest

from twin.providers.gcp.effects import pool_files
from twin.tests.unit.gcp.conftest import Cloud, Context, Refused
from twin.wire import rpc
from twin.wire.property_values import SECRET_SIGNATURE, SIGNATURE_KEY, UNKNOWN
from twin.wire.rpc import provider_pb2 as pb
from twin.world.store import find_by_name

ACCOUNT = "gcp:serviceaccount/account:Account"
ADDRESS = "gcp:compute/address:Address"
BUCKET = "gcp:storage/bucket:Bucket"
CLUSTER = "gcp:container/cluster:Cluster"
NETWORK = "gcp:compute/network:Network"
OBJECT = "gcp:storage/bucketObject:BucketObject"
ROUTER = "gcp:compute/router:Router"


def test_defaults_of_the_schema_are_filled_in_also_inside_given_blocks(cloud: Cloud) -> None:
    bucket = cloud.checked(
        BUCKET, "b", {"location": "US", "retentionPolicy": {"retentionPeriod": "1"}}
    )
    assert bucket["storageClass"] == "STANDARD"
    assert bucket["retentionPolicy"] == {"retentionPeriod": "1", "__defaults": []}
    assert "versioning" not in bucket


def test_what_was_filled_in_is_listed_in_each_block(cloud: Cloud) -> None:
    made = cloud.checked(NETWORK, "net", {})
    order = "networkFirewallPolicyEnforcementOrder"
    assert made["__defaults"] == ["autoCreateSubnetworks", "name", order]
    check = cloud.checked(
        "gcp:monitoring/uptimeCheckConfig:UptimeCheckConfig",
        "up",
        {
            "displayName": "up",
            "timeout": "10s",
            "httpCheck": {"useSsl": True},
            "resourceGroup": {"resourceType": "INSTANCE"},
        },
    )
    assert check["__defaults"] == ["period"]
    filled = {"path": "/", "requestMethod": "GET", "__defaults": ["path", "requestMethod"]}
    assert check["httpCheck"] == {"useSsl": True, **filled}


def test_a_disk_says_that_its_windows_signature_stays(cloud: Cloud) -> None:
    made = cloud.checked("gcp:compute/disk:Disk", "d", {"zone": "us-east5-a"})
    assert made["eraseWindowsVssSignature"] is False


def test_a_property_that_is_null_is_left_out(cloud: Cloud) -> None:
    inputs = {"cluster": "c", "nodeConfig": {"bootDiskKmsKey": None, "spot": True}}
    made = cloud.checked("gcp:container/nodePool:NodePool", "p", inputs)
    assert "bootDiskKmsKey" not in made["nodeConfig"]


def test_checked_inputs_mark_sensitive_properties_of_blocks_as_secret(cloud: Cloud) -> None:
    stores = [{"trustAnchors": [{"pemCertificate": "text"}]}]
    inputs = {"location": "global", "trustStores": stores}
    made = cloud.checked("gcp:certificatemanager/trustConfig:TrustConfig", "t", inputs)
    assert made["trustStores"][0]["trustAnchors"][0]["pemCertificate"] == {
        SIGNATURE_KEY: SECRET_SIGNATURE,
        "value": "text",
    }


@pytest.mark.parametrize(
    ("token", "inputs", "left_out"),
    [
        (BUCKET, {"location": "US"}, "forceDestroy"),
        (ACCOUNT, {"accountId": "engines"}, "disabled"),
        (CLUSTER, {"location": "us-east5", "initialNodeCount": 1}, "enableLegacyAbac"),
        ("gcp:compute/disk:Disk", {"zone": "us-east5-a"}, "createSnapshotBeforeDestroy"),
        ("gcp:compute/disk:Disk", {"zone": "us-east5-a"}, "interface"),
        (
            "gcp:storage/anywhereCache:AnywhereCache",
            {"bucket": "b", "zone": "us-east5-a"},
            "admissionPolicy",
        ),
    ],
)
def test_no_false_or_deprecated_default_is_filled_in(
    cloud: Cloud, token: str, inputs: dict[str, object], left_out: str
) -> None:
    assert left_out not in cloud.checked(token, "x", inputs)


def test_outputs_have_the_defaults_that_inputs_leave_out(cloud: Cloud) -> None:
    made = cloud.create(BUCKET, "b", {"location": "US"})
    assert made.outputs["forceDestroy"] is False
    assert "__defaults" not in made.outputs


def test_a_value_that_was_filled_in_stays_and_one_that_was_given_goes(cloud: Cloud) -> None:
    olds = {"location": "US", "storageClass": "NEARLINE"}
    kept = cloud.check(
        BUCKET, "b", {"location": "US"}, olds={**olds, "__defaults": ["storageClass"]}
    )
    assert rpc.plain(kept.inputs)["storageClass"] == "NEARLINE"
    given = cloud.check(BUCKET, "b", {"location": "US"}, olds={**olds, "__defaults": []})
    assert rpc.plain(given.inputs)["storageClass"] == "STANDARD"


def test_a_default_is_left_out_beside_what_conflicts_with_it(cloud: Cloud) -> None:
    base = {"location": "us-east5", "initialNodeCount": 1}
    assert cloud.checked(CLUSTER, "c", base)["enableShieldedNodes"] is True
    autopilot = cloud.checked(CLUSTER, "c", {"location": "us-east5", "enableAutopilot": True})
    assert "enableShieldedNodes" not in autopilot


def test_a_resource_without_a_name_gets_one_that_stays(cloud: Cloud) -> None:
    first = cloud.checked(NETWORK, "Net", {})["name"]
    assert re.fullmatch(r"net-[0-9a-f]{7}", first)
    assert cloud.checked(NETWORK, "Net", {})["name"] == first
    response = cloud.check(NETWORK, "Net", {}, olds={"name": "net-1234567"})
    assert rpc.plain(response.inputs)["name"] == "net-1234567"


def test_a_replacement_gets_a_name_that_is_free(cloud: Cloud) -> None:
    made = cloud.create(NETWORK, "net", {})
    assert cloud.checked(NETWORK, "net", {})["name"] != made.outputs["name"]


def test_a_name_made_from_a_bad_logical_name_is_refused(cloud: Cloud) -> None:
    assert "name" in {f.property for f in cloud.check(ADDRESS, "Gateway_IP", {}).failures}


def test_the_engines_own_naming_wins(cloud: Cloud) -> None:
    options = pb.CheckRequest.AutonamingOptions
    naming = options(proposed_name="chosen", mode=options.ENFORCE)
    request = pb.CheckRequest(
        urn=cloud.urn(NETWORK, "net"), news=rpc.to_struct({}), autonaming=naming
    )
    answer = cloud.provider.Check(request, cloud.context)
    assert rpc.plain(answer.inputs)["name"] == "chosen"


def test_a_preview_echoes_inputs_and_leaves_the_computed_unknown(cloud: Cloud) -> None:
    planned = cloud.preview(NETWORK, "net", {"name": "n"})
    assert planned["name"] == "n"
    assert planned["project"] == "acme"
    assert planned["selfLink"] == UNKNOWN
    assert planned["deletionPolicy"] == "DELETE"
    assert cloud.world.store.all() == []


def test_a_preview_knows_the_email_of_a_service_account(cloud: Cloud) -> None:
    planned = cloud.preview(ACCOUNT, "a", {"accountId": "acme-nodes"})
    assert planned["email"] == "acme-nodes@acme.iam.gserviceaccount.com"
    assert planned["member"] == "serviceAccount:acme-nodes@acme.iam.gserviceaccount.com"
    assert planned["uniqueId"] == UNKNOWN


def test_labels_are_planned_with_the_providers_own(cloud: Cloud) -> None:
    cloud.configure(project="acme", defaultLabels='{"team": "ml"}')
    planned = cloud.preview(BUCKET, "b", {"location": "US", "labels": {"env": "dev"}})
    everything = {"team": "ml", "env": "dev", "goog-pulumi-provisioned": "true"}
    assert planned["pulumiLabels"] == everything
    assert planned["effectiveLabels"] == everything
    cloud.configure(project="acme", addPulumiAttributionLabel="false")
    assert cloud.preview(BUCKET, "b", {"location": "US"})["pulumiLabels"] == {}


def test_a_network_looks_like_googles(cloud: Cloud) -> None:
    made = cloud.create(NETWORK, "net", {"name": "n"})
    assert made.id == "projects/acme/global/networks/n"
    assert made.outputs["selfLink"] == f"https://www.googleapis.com/compute/v1/{made.id}"
    assert made.outputs["networkId"].isdigit()
    assert UNKNOWN not in made.outputs.values()


def test_a_cluster_is_reached_at_its_endpoint(cloud: Cloud, clusters: list[Any]) -> None:
    inputs = {
        "name": "c",
        "location": "us-east5",
        "initialNodeCount": 1,
        "removeDefaultNodePool": True,
        "workloadIdentityConfig": {"workloadPool": "acme.svc.id.goog"},
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"allowExternalTraffic": True}},
    }
    made = cloud.create(CLUSTER, "c", inputs)
    assert made.id == "projects/acme/locations/us-east5/clusters/c"
    assert made.outputs["endpoint"] == "127.0.0.1:6443"
    dns = made.outputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]
    assert dns == {"allowExternalTraffic": True, "endpoint": "127.0.0.1:6443"}
    assert made.outputs["masterAuth"]["clusterCaCertificate"] == "UEVN"
    assert made.outputs["nodeLocations"] == ["us-east5-a", "us-east5-b", "us-east5-c"]
    (spec,) = clusters
    assert (spec.project, spec.zones) == ("acme", ("us-east5-a", "us-east5-b", "us-east5-c"))
    assert not cloud.diff(made, inputs).detailedDiff


def test_a_node_pool_is_handed_to_its_cluster(
    cloud: Cloud, clusters: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_files, "wait_ready", lambda *_: None)
    cloud.create(
        CLUSTER,
        "c",
        {
            "name": "c",
            "location": "us-east5-a",
            "initialNodeCount": 1,
            "removeDefaultNodePool": True,
        },
    )
    inputs = {"name": "p", "cluster": "c", "location": "us-east5-a", "nodeCount": 2}
    made = cloud.create("gcp:container/nodePool:NodePool", "p", inputs)
    assert made.id == "projects/acme/locations/us-east5-a/clusters/c/nodePools/p"
    file = cloud.paths.cluster("us-east5-a", "c") / "pools" / "p.json"
    assert '"zones": ["us-east5-a"]' in file.read_text()


def test_an_object_is_really_in_its_bucket(cloud: Cloud, storage: Any) -> None:
    cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    cloud.create(OBJECT, "o", {"bucket": "b", "name": "dir/o.txt", "content": "hello"})
    assert storage.buckets == {"b": {"dir/o.txt": b"hello"}}


def test_the_content_of_an_object_is_a_secret_to_the_engine(cloud: Cloud) -> None:
    cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    inputs = cloud.checked(OBJECT, "o", {"bucket": "b", "name": "o", "content": "hello"})
    request = pb.CreateRequest(urn=cloud.urn(OBJECT, "o"), properties=rpc.to_struct(inputs))
    answer = rpc.plain(cloud.provider.Create(request, cloud.context).properties)
    assert answer["content"] == {SIGNATURE_KEY: SECRET_SIGNATURE, "value": "hello"}


def test_addresses_are_on_loopback_and_differ(cloud: Cloud) -> None:
    made = [
        cloud.create(ADDRESS, name, {"name": name, "region": "us-east5"}).outputs["address"]
        for name in ("a", "b")
    ]
    assert len(set(made)) == 2
    assert all(address.startswith("127.32.") for address in made)
    found = find_by_name(ADDRESS, "b", cloud.paths)
    assert found is not None
    assert found["address"] == made[1]
    assert find_by_name(ADDRESS, "c", cloud.paths) is None


def test_a_region_comes_from_the_provider_or_is_missing(cloud: Cloud) -> None:
    cloud.create(NETWORK, "n", {"name": "n"})
    with pytest.raises(Refused, match="region: required field is not set"):
        cloud.create(ROUTER, "r", {"name": "r", "network": "n"})
    cloud.configure(project="acme", region="us-east5")
    made = cloud.create(ROUTER, "r", {"name": "r", "network": "n"})
    assert made.id == "projects/acme/regions/us-east5/routers/r"


def test_two_provider_objects_keep_their_projects_apart(cloud: Cloud) -> None:
    first, second = cloud.context, Context("ipv4:127.0.0.1:2")
    cloud.context = second
    cloud.configure(project="other")
    assert cloud.create(NETWORK, "n", {"name": "n"}).id.startswith("projects/other/")
    cloud.context = first
    assert cloud.create(NETWORK, "n", {"name": "n"}).id.startswith("projects/acme/")


def test_an_update_keeps_what_google_computed_and_drops_what_the_user_dropped(cloud: Cloud) -> None:
    inputs = {"name": "b", "location": "US", "labels": {"a": "1"}, "requesterPays": True}
    made = cloud.create(BUCKET, "b", inputs)
    before = made.outputs["timeCreated"]
    after = cloud.update(made, {"name": "b", "location": "US"})
    assert after["timeCreated"] == before
    assert "requesterPays" not in after
    assert after["effectiveLabels"] == {"goog-pulumi-provisioned": "true"}
    assert not cloud.diff(made, {"name": "b", "location": "US"}).detailedDiff


def test_reading_an_id_imports_a_resource_and_a_gone_one_is_empty(cloud: Cloud) -> None:
    made = cloud.create(NETWORK, "n", {"name": "n"})
    for identifier in (made.id, "acme/n", "n", made.outputs["selfLink"]):
        answer = cloud.read(NETWORK, "n", identifier)
        assert answer.id == made.id
        assert rpc.plain(answer.inputs)["name"] == "n"
    assert cloud.read(NETWORK, "n", "projects/acme/global/networks/gone").id == ""


def test_a_bucket_deleted_behind_the_twins_back_is_seen_by_refresh(
    cloud: Cloud, storage: Any
) -> None:
    made = cloud.create(BUCKET, "b", {"name": "b", "location": "US"})
    storage.buckets.clear()
    assert cloud.read(BUCKET, "b", made.id).id == ""


def test_a_project_has_a_number_and_unknown_functions_are_refused(cloud: Cloud) -> None:
    answer = cloud.invoke("gcp:organizations/getProject:getProject", {})
    values = rpc.plain(getattr(answer, "return"))
    assert values["projectId"] == "acme"
    assert re.fullmatch(r"\d{12}", values["number"])
    refused = cloud.invoke("gcp:foo/getBar:getBar", {})
    assert "is not supported by the twin" in refused.failures[0].reason


def test_a_lookup_finds_what_the_twin_made(cloud: Cloud) -> None:
    made = cloud.create(NETWORK, "n", {"name": "n"})
    answer = cloud.invoke("gcp:compute/getNetwork:getNetwork", {"name": "n"})
    assert rpc.plain(getattr(answer, "return"))["selfLink"] == made.outputs["selfLink"]
    with pytest.raises(Refused, match="was not found"):
        cloud.invoke("gcp:compute/getNetwork:getNetwork", {"name": "m"})
