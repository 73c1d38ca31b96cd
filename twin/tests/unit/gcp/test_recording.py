"""The provider that a verdict compares stacks with: it creates nothing and answers all the same."""

from twin.providers.gcp.server import world_of
from twin.pulumi.recording import RecordingCloud
from twin.tests.unit.gcp.conftest import Cloud
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
