"""A stand-in for the engine that also answers what only the cloud knows."""

import asyncio
import fcntl
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pulumi.runtime import mocks

from gke_inference.gateway.inference_gateway import FORWARDING_RULES
from infra.deploy.program import deploy
from infra.stack import Platform
from tests.contract.recorder import Recorder, Records, install

AUTHORIZATION = "gcp:certificatemanager/dnsAuthorization:DnsAuthorization"
ASKED = {"data": "x.goog.", "name": "_acme-challenge_1.models.example.com.", "type": "CNAME"}
"""Record that proves a domain."""

COMPUTED: dict[str, dict[str, Any]] = {
    AUTHORIZATION: {"dnsResourceRecords": [ASKED]},
    "gcp:compute/address:Address": {"address": "203.0.113.10"},
    "gcp:compute/globalAddress:GlobalAddress": {"address": "203.0.113.99"},
    "gcp:container/cluster:Cluster": {
        "controlPlaneEndpointsConfig": {"dnsEndpointConfig": {"endpoint": "gke-1.example.goog"}}
    },
    "gcp:filestore/instance:Instance": {
        "networks": [{"ipAddresses": ["10.9.0.2"], "modes": []}],
    },
    "gcp:lustre/instance:Instance": {"mountPoint": "10.9.0.2@tcp:/shared"},
    "gcp:serviceaccount/account:Account": {
        "email": "nodes@acme.iam.gserviceaccount.com",
        "member": "serviceAccount:nodes@acme.iam.gserviceaccount.com",
        "name": "projects/acme/serviceAccounts/gke-nodes@acme.iam.gserviceaccount.com",
    },
    "gcp:compute/subnetwork:Subnetwork": {
        "selfLink": "https://www.googleapis.com/compute/v1/projects/acme/regions/r/subnetworks/s"
    },
}


ANSWERS: dict[str, dict[str, Any]] = {
    "gcp:kms/getKMSCryptoKeyVersion:getKMSCryptoKeyVersion": {
        "name": "projects/acme/locations/l/keyRings/r/cryptoKeys/k/cryptoKeyVersions/1",
        "publicKeys": [{"algorithm": "EC_SIGN_P256_SHA256", "pem": "a public key"}],
    }
}


GATEWAY = "kubernetes:gateway.networking.k8s.io/v1:Gateway"
PROGRAMMED = {FORWARDING_RULES: "/projects/1/regions/r/forwardingRules/gkegw1-a-models"}
"""What GKE writes on a Gateway."""


POLICY = "kubernetes:networking.gke.io/v1:GCPGatewayPolicy"
ATTACHED = {"conditions": [{"type": "Attached", "status": "True"}]}


class CloudRecorder(Recorder):
    """Records registrations, and answers with the outputs that the program reads."""

    def __init__(self) -> None:
        super().__init__()
        self.answers = ANSWERS

    def new_resource(self, args: mocks.MockResourceArgs) -> tuple[str, dict[str, Any]]:
        name, outputs = super().new_resource(args)
        if args.typ == GATEWAY and self.is_read(args):
            metadata, status = {"annotations": PROGRAMMED}, {"addresses": self._given_addresses()}
            outputs = {**outputs, "metadata": metadata, "status": status}
        if args.typ == POLICY and self.is_read(args):
            outputs = {**outputs, "status": ATTACHED}
        return name, {**outputs, **COMPUTED.get(args.typ, {})}

    def _given_addresses(self) -> list[dict[str, str]]:
        """Return an address for each that the last Gateway's spec asks for."""
        specs = [each.inputs["spec"] for each in self.registrations if each.type == GATEWAY]
        asked: list[Any] = next(
            (each["addresses"] for each in reversed(specs) if each.get("addresses")), []
        )
        return [{"type": "IPAddress", "value": f"10.0.{at}.9"} for at in range(len(asked))]


Deployed = Callable[[Platform], Records]
"""Returns what a stack registers."""


class Deployments:
    """What stacks become, each deployed once in a run, whichever worker asks first."""

    def __init__(self, folder: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._folder, self._loop = folder, loop
        self._known: dict[str, Records] = {}

    def of(self, platform: Platform) -> Records:
        """Returns what a stack registers. Tests share it: who changes it, copies it first."""
        text = platform.model_dump_json()
        if text not in self._known:
            records = Records()
            records.registrations = self._shared(platform, text)
            self._known[text] = records
        return self._known[text]

    def _shared(self, platform: Platform, text: str) -> Any:
        """Returns what another worker found, or deploys while others wait."""
        file = self._folder / f"stack-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        with file.open("a+b") as content:
            fcntl.flock(content, fcntl.LOCK_EX)
            content.seek(0)
            if found := content.read():
                return pickle.loads(found)  # noqa: S301 - this run wrote it
            recorder = install(CloudRecorder(), self._loop)
            recorder.run(lambda: deploy(platform))
            content.write(pickle.dumps(recorder.registrations))
            return recorder.registrations
