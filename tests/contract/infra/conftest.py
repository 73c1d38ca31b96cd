"""A stand-in for the engine that also answers what only the cloud knows."""

import asyncio
from typing import Any

import pytest
from pulumi.runtime import mocks

from tests.contract.conftest import Recorder, _TidyMonitor

COMPUTED: dict[str, dict[str, Any]] = {
    "gcp:compute/address:Address": {"address": "203.0.113.10"},
    "gcp:container/cluster:Cluster": {
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": "gke-1.example.goog"}}
    },
    "gcp:serviceaccount/account:Account": {"email": "nodes@acme.iam.gserviceaccount.com"},
}


ANSWERS: dict[str, dict[str, Any]] = {
    "gcp:kms/getKMSCryptoKeyVersion:getKMSCryptoKeyVersion": {
        "name": "projects/acme/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
        "publicKeys": [{"algorithm": "EC_SIGN_P256_SHA256", "pem": "a public key"}],
    }
}


class CloudRecorder(Recorder):
    """Records registrations, and answers with the outputs that the program reads."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = ANSWERS

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        name, outputs = super().new_resource(args)
        return name, {**outputs, **COMPUTED.get(args.typ, {})}


@pytest.fixture
def cloud(engine_loop: asyncio.AbstractEventLoop) -> CloudRecorder:
    """A fresh engine stand-in with a cloud behind it."""
    asyncio.set_event_loop(engine_loop)
    stand_in = CloudRecorder()
    mocks.set_mocks(
        stand_in,
        project="gke-inference",
        stack="test",
        preview=False,
        monitor=_TidyMonitor(stand_in),
    )
    return stand_in
