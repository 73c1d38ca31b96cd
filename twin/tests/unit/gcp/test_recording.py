"""The provider that a verdict compares stacks with: it creates nothing and answers all the same."""

from ipaddress import ip_address, ip_network

import pytest

from twin.providers.gcp.server import world_of
from twin.pulumi.recording import RecordingCloud, RecordingKubernetes
from twin.tests.unit.gcp.conftest import Cloud, Context
from twin.wire import rpc
from twin.wire.rpc import provider_pb2 as pb


def test_a_key_made_in_a_recording_answers_for_its_versions(cloud):
    paths = cloud.paths
    recording = Cloud(paths)
    recording.provider = RecordingCloud(world_of(paths))
    recording.configure(project="acme")
    ring = recording.create(
        "gcp:kms/keyRing:KeyRing", "ring", {"name": "images", "location": "us-east4"}
    )
    key = recording.create(
        "gcp:kms/cryptoKey:CryptoKey",
        "key",
        {
            "name": "signer",
            "keyRing": ring.id,
            "purpose": "ASYMMETRIC_SIGN",
            "versionTemplate": {"algorithm": "EC_SIGN_P256_SHA256"},
        },
    )
    answer = recording.invoke(
        "gcp:kms/getKMSCryptoKeyVersion:getKMSCryptoKeyVersion", {"cryptoKey": key.id}
    )
    found = rpc.plain(getattr(answer, "return"))
    assert found["name"] == f"{key.id}/cryptoKeyVersions/1"
    assert found["algorithm"] == "EC_SIGN_P256_SHA256"
    assert found["publicKeys"][0]["pem"].startswith("-----BEGIN PUBLIC KEY-----")


def test_a_cluster_that_exists_beside_the_stack_is_reached_by_name(cloud):
    recording = Cloud(cloud.paths)
    recording.provider = RecordingCloud(world_of(cloud.paths))
    recording.configure(project="acme")
    path = "projects/acme/locations/us-east5/clusters/shared"
    urn = recording.urn("gcp:container/cluster:Cluster", "us-east5")
    answer = recording.provider.Read(pb.ReadRequest(id=path, urn=urn), recording.context)
    outputs = rpc.plain(answer.properties)
    assert (answer.id, outputs["name"]) == (path, "shared")
    assert outputs["controlPlaneEndpointsConfig"]["dnsEndpointConfig"]["endpoint"]


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("address:Address", {"name": "front", "region": "us-east5"}),
        ("globalAddress:GlobalAddress", {"name": "front"}),
    ],
)
def test_a_reserved_address_of_a_recording_can_be_in_a_record(cloud, kind, inputs):
    recording = Cloud(cloud.paths)
    recording.provider = RecordingCloud(world_of(cloud.paths))
    recording.configure(project="acme")
    made = recording.create(f"gcp:compute/{kind}", "front", inputs)
    assert ip_address(str(made.outputs["address"])) in ip_network("192.0.2.0/24")


def test_a_valkey_of_a_recording_has_a_primary_endpoint_and_an_authority(cloud):
    recording = Cloud(cloud.paths)
    recording.provider = RecordingCloud(world_of(cloud.paths))
    recording.configure(project="acme")
    network = "projects/acme/global/networks/vpc"
    inputs = {
        "desiredAutoCreatedEndpoints": [{"network": network, "projectId": "acme"}],
        "instanceId": "counters",
        "location": "us-east5",
        "mode": "CLUSTER_DISABLED",
        "shardCount": 1,
        "transitEncryptionMode": "SERVER_AUTHENTICATION",
    }
    made = recording.create("gcp:memorystore/instance:Instance", "counters", inputs)
    [endpoint] = made.outputs["endpoints"]
    first = endpoint["connections"][0]["pscAutoConnection"]
    assert first["connectionType"] == "CONNECTION_TYPE_PRIMARY"
    assert ip_address(first["ipAddress"]) in ip_network("192.0.2.0/24")
    [authority] = made.outputs["managedServerCas"][0]["caCerts"]
    assert authority["certificates"]


def test_a_gateway_that_a_program_reads_has_a_rule_and_an_address_for_each_in_its_spec():
    provider, context = RecordingKubernetes(), Context()
    urn = "urn:pulumi:dev::bp::kubernetes:gateway.networking.k8s.io/v1:Gateway::gateway"
    gateway = {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "Gateway",
        "metadata": {"name": "acme-dev-gateway", "namespace": "models"},
        "spec": {"addresses": [{"value": "a"}, {"value": "b"}]},
    }
    made = provider.Create(pb.CreateRequest(urn=urn, properties=rpc.to_struct(gateway)), context)
    seen = rpc.plain(provider.Read(pb.ReadRequest(id=made.id, urn=urn), context).properties)
    rules = seen["metadata"]["annotations"]
    assert rules == {"networking.gke.io/forwarding-rules": "acme-dev-gateway"}
    assert len({each["value"] for each in seen["status"]["addresses"]}) == 2


def test_the_policy_of_a_gateway_that_a_program_reads_is_attached():
    provider, context = RecordingKubernetes(), Context()
    urn = "urn:pulumi:dev::bp::kubernetes:networking.gke.io/v1:GCPGatewayPolicy::policy"
    policy = {
        "apiVersion": "networking.gke.io/v1",
        "kind": "GCPGatewayPolicy",
        "metadata": {"name": "acme-dev-gateway", "namespace": "models"},
    }
    made = provider.Create(pb.CreateRequest(urn=urn, properties=rpc.to_struct(policy)), context)
    seen = rpc.plain(provider.Read(pb.ReadRequest(id=made.id, urn=urn), context).properties)
    assert seen["status"]["conditions"] == [{"type": "Attached", "status": "True"}]
