"""Signatures of artifacts: their form, and keys that cannot be used."""

import base64
import json
import re

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa, utils

from scripts.delivery import writing
from scripts.delivery.artifact import artifact_of
from scripts.delivery.signing import signer_of
from scripts.shared.google_cloud import Cloud
from scripts.terminal.console import CommandError
from tests.unit.delivery.test_artifact import tree

REPOSITORY = "us-docker.pkg.dev/acme/serving/models"
KMS = "gcpkms://projects/acme/locations/us/keyRings/delivery/cryptoKeys/models/versions/3"
VERSION = "projects/acme/locations/us/keyRings/delivery/cryptoKeys/models/cryptoKeyVersions/3"


def pem(key, password=None):
    encryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, encryption)


def public_pem(key):
    encoding, form = serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(encoding, form).decode()


class Answer:
    def __init__(self, body, status=200):
        self._body, self.status_code = body, status
        self.text = json.dumps(body)

    def json(self):
        return self._body


class Kms:
    """The two methods of Cloud KMS that a signer calls, as a session."""

    def __init__(self, key, shown=None, refusals=None):
        self.key, self.shown, self.refusals = key, shown or key, refusals or {}

    def request(self, method, url, *, json, params, headers, timeout):
        called = f"{method} {url}"
        assert f"https://cloudkms.googleapis.com/v1/{VERSION}" in url
        for end, (status, message) in self.refusals.items():
            if called.endswith(end):
                return Answer({"error": {"code": status, "message": message}}, status)
        if called.endswith("/publicKey"):
            return Answer({"pem": public_pem(self.shown)})
        assert called.startswith("POST"), called
        assert called.endswith(":asymmetricSign")
        digest = base64.b64decode(json["digest"]["sha256"])
        signature = self.key.sign(digest, ec.ECDSA(utils.Prehashed(hashes.SHA256())))
        return Answer({"signature": base64.b64encode(signature).decode()})

    def connect(self, project):
        assert project == "acme"
        return Cloud(project, self, sleep=lambda _: None)


def nobody(project):
    raise AssertionError(f"connects to {project}")


@pytest.fixture
def key():
    return ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize("place", ["file", "kms"])
def test_a_signature_names_the_digest_and_is_verified_by_the_public_key(key, place, tmp_path):
    file = tmp_path / "key.pem"
    file.write_bytes(pem(key))
    signer = signer_of(str(file), nobody) if place == "file" else signer_of(KMS, Kms(key).connect)
    artifact = artifact_of(tree(), "search")
    signature, tag = signer.signature_of(artifact, REPOSITORY)
    assert tag == f"sha256-{artifact.digest.removeprefix('sha256:')}.sig"
    [layer] = json.loads(signature.manifest)["layers"]
    assert layer["mediaType"] == "application/vnd.dev.cosign.simplesigning.v1+json"
    payload = signature.blobs[layer["digest"]]
    assert json.loads(payload)["critical"] == {
        "identity": {"docker-reference": REPOSITORY},
        "image": {"docker-manifest-digest": artifact.digest},
        "type": "cosign container image signature",
    }
    signed = base64.b64decode(layer["annotations"]["dev.cosignproject.cosign/signature"])
    key.public_key().verify(signed, payload, ec.ECDSA(hashes.SHA256()))


def test_the_signature_is_pushed_before_the_artifact(key, tmp_path, monkeypatch):
    file = tmp_path / "key.pem"
    file.write_bytes(pem(key))
    pushed = []
    monkeypatch.setattr(writing, "push", lambda artifact, where: pushed.append((artifact, where)))
    signer = signer_of(str(file), nobody)
    writing.write_targets(tree(), "search", None, f"{REPOSITORY}:prod", signer)
    (_, first), (artifact, second) = pushed
    assert second == f"{REPOSITORY}:prod"
    assert first == f"{REPOSITORY}:{artifact.digest.replace(':', '-')}.sig"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        (b"no key", "without a password, got"),
        (pem(ec.generate_private_key(ec.SECP256R1()), b"secret"), "without a password, got"),
        (pem(ec.generate_private_key(ec.SECP384R1())), "with another kind of key"),
        (pem(rsa.generate_private_key(65537, 2048)), "with another kind of key"),
    ],
    ids=["missing", "no-key", "password", "p384", "rsa"],
)
def test_a_file_without_a_usable_key_is_refused(content, problem, tmp_path):
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(CommandError, match=re.escape(problem)) as refused:
        signer_of(str(file), nobody)
    assert str(refused.value).startswith("--sign: must be gcpkms://... or a PEM file")


def test_a_key_of_kms_without_a_version_is_refused_before_a_call():
    with pytest.raises(CommandError, match=r"^--sign: must be gcpkms://projects/P/.*/versions/N"):
        signer_of("gcpkms://projects/acme/locations/us/keyRings/a/cryptoKeys/b", nobody)


def test_a_key_that_kms_does_not_have_is_one_line(key):
    gone = Kms(key, refusals={"/publicKey": (404, "not found")})
    with pytest.raises(CommandError, match=r"^--sign: gcpkms://.*publicKey does not exist$"):
        signer_of(KMS, gone.connect)


def test_a_key_that_may_not_be_used_is_one_line(key):
    denied = Kms(key, refusals={":asymmetricSign": (403, "useToSign denied")})
    signer = signer_of(KMS, denied.connect)
    with pytest.raises(CommandError, match=r"^--sign: gcpkms://.*useToSign denied$"):
        signer.signature_of(artifact_of(tree(), "search"), REPOSITORY)


def test_a_signature_of_another_key_is_not_pushed(key):
    other = Kms(ec.generate_private_key(ec.SECP256R1()), shown=key)
    with pytest.raises(CommandError, match="does not match its public key"):
        signer_of(KMS, other.connect).signature_of(artifact_of(tree(), "search"), REPOSITORY)


@pytest.mark.parametrize("answer", [{}, {"pem": "no key"}])
def test_a_key_of_kms_of_another_kind_is_refused(key, answer):
    class Other(Kms):
        def request(self, *_, **__):
            return Answer(answer)

    with pytest.raises(CommandError, match=r"^--sign: must be a key for EC_SIGN_P256_SHA256, got "):
        signer_of(KMS, Other(key).connect)
