"""Personalized images as processes: service, workers, Pub/Sub, bucket, trainer and image server."""

import json
import ssl
import urllib.parse
import urllib.request
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from gke_inference.personal.personal_worker import document
from tests.contract.components_k8s.test_personal import WORKER
from tests.diffusion.personal.cluster import TOKEN, Cluster
from tests.diffusion.personal.receiver import Receiver
from tests.running.programs import Program
from tests.running.stream.world import PubSub
from twin.engines.stream_worker import personal_environment
from twin.host import processes
from twin.host.paths import TwinPaths
from twin.host.ports import free_port
from twin.providers.gcp.effects import gcs
from twin.providers.gcp.server import world_of
from twin.providers.gcp.signed import server as signed
from twin.world.store import new_record

BUCKET = "acme-personal"
EMAIL = "front@acme.iam.gserviceaccount.com"
SECRET = b"of both"
SETS, ERASURES = "projects/acme/topics/sets", "projects/acme/topics/erasures"
READ_SETS, READ_ERASURES = (
    each.replace("/topics/", "/subscriptions/") for each in (SETS, ERASURES)
)


class World:
    """All of it, but for the cluster that runs the pods.

    Args:
        folder: Folder of everything.
        model: Folder of the model's weights, or of its versions.
        endpoint: URL of the image server.
    """

    def __init__(self, folder: Path, model: Path, endpoint: str) -> None:
        self.folder, self._model, self._endpoint = folder, model, endpoint
        self.shared = folder / "shared"
        self.shared.mkdir()
        self.paths = TwinPaths(folder / "twin")
        (folder / "pubsub").mkdir()
        self.pubsub = PubSub(folder / "pubsub")
        for topic, subscription in ((SETS, READ_SETS), (ERASURES, READ_ERASURES)):
            self.pubsub.call("PUT", topic, {})
            self.pubsub.call("PUT", subscription, {"topic": topic, "ackDeadlineSeconds": 10})
        gcs.create_bucket(self.paths, BUCKET, "acme")
        self._let_sign()
        self._account = folder / "account"
        tls = _certificate(self._account)
        self.receiver = Receiver(tls)
        self.cluster = Cluster(folder, tls, self._mount)
        self.environment = {
            **self.pubsub.environment,
            **signed.environment(self.paths),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.cluster.port),
            "NO_PROXY": "127.0.0.1,localhost",
            "POD_IP": "127.0.0.1",
            "PYTHONWARNINGS": "ignore",
            "SSL_CERT_FILE": str(self._account / "ca.crt"),
            "STORAGE_EMULATOR_HOST": gcs.url(self.paths),
        }
        self.programs: list[Program] = []

    def serve(self) -> str:
        """Start the service and return its URL."""
        port = free_port()
        settings = {
            "bucket": BUCKET,
            "callback_hosts": [self.receiver.host],
            "erasures_topic": ERASURES,
            "signer": EMAIL,
            "topic": SETS,
        }
        given = {"SETTINGS": json.dumps(settings), "PORT": str(port)}
        self._start("front", ["front", "-"], given)
        return f"http://127.0.0.1:{port}"

    def work(self, **training: Any) -> Program:
        """Start a worker with the settings of the component, but for paths, ports and times."""
        given = {"bucket": BUCKET, "endpoint": self._endpoint, "models_bucket": "models"}
        given |= {"erasures_subscription": READ_ERASURES, "subscription": READ_SETS}
        args: Any = {**WORKER, "model": "flux", "adapters": "flux/live-adapters"}
        args.pop("key_secret")
        settings = json.loads(document(args, given))
        secret = self.folder / "secret"
        secret.write_bytes(SECRET)
        settings |= {
            "account": str(self._account),
            "lease_seconds": 3.0,
            "port": free_port(),
            "secret_file": str(secret),
            "shared": str(self.shared),
            "training": {**settings["training"], "folder": str(self._model), **training},
        }
        name = f"worker-{len(self.programs)}"
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(settings))
        return self._start(name, ["work", str(file)], {})

    def object(self, name: str) -> bytes:
        """Return the content of an object."""
        path = urllib.parse.quote(name, safe="")
        url = f"{gcs.url(self.paths)}/storage/v1/b/{BUCKET}/o/{path}?alt=media"
        answer = requests.get(url, timeout=20)
        answer.raise_for_status()
        return answer.content

    def stop(self) -> None:
        """End everything."""
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        self.cluster.close()
        self.receiver.stop()
        self.pubsub.stop()
        processes.stop(self.paths, signed.NAME, gcs.NAME)

    def _start(self, name: str, arguments: list[str], environment: dict[str, str]) -> Program:
        log = self.folder / f"{name}.log"
        argv = [str(personal_environment().python()), "-m", "workloads.personal", *arguments]
        made = Program(log, argv, {**self.environment, **environment})
        self.programs.append(made)
        made.wait()
        return made

    def _mount(self, prefix: str, folder: Path) -> None:
        for each in gcs.objects(self.paths, BUCKET):
            name = str(each["name"])
            if name.startswith(prefix):
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(self.object(name))

    def _let_sign(self) -> None:
        """Add the account of the service and its grants, as a stack does."""
        member = f"serviceAccount:{EMAIL}"
        account = f"projects/acme/serviceAccounts/{EMAIL}"
        made: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("serviceaccount/account:Account", {}, {"email": EMAIL}),
            (
                "serviceaccount/iAMMember:IAMMember",
                {
                    "serviceAccountId": account,
                    "role": "roles/iam.serviceAccountTokenCreator",
                    "member": member,
                },
                {},
            ),
            (
                "storage/bucketIAMMember:BucketIAMMember",
                {"bucket": BUCKET, "role": "roles/storage.objectUser", "member": member},
                {},
            ),
        ]
        store = world_of(self.paths).store
        for at, (kind, inputs, outputs) in enumerate(made):
            name = EMAIL if at == 0 else f"grant-{at}"
            store.add(new_record(f"gcp:{kind}", name, name, "acme", "urn", inputs, outputs), [])


def _certificate(folder: Path) -> ssl.SSLContext:
    """Write the account of a pod, and return the TLS of the servers that it trusts."""
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    names = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (folder / "key.pem").write_bytes(private)
    (folder / "token").write_text(TOKEN)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.crt", folder / "key.pem")
    return context
