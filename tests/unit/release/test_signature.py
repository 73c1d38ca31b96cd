"""The signature of a release's checksums, and what its check refuses."""

import base64
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from scripts.delivery.signing import signer_of
from scripts.release import __main__ as release
from scripts.release import verify
from scripts.release.checksums import CHECKSUMS, SIGNATURE, checksums_of, write_checksums
from scripts.release.sources import Commit
from scripts.terminal.console import CommandError


def write_key(key, folder, name):
    """Write a key and its public key, and return both files."""
    private, public = folder / f"{name}.pem", folder / f"{name}.pub"
    encoding = serialization.Encoding.PEM
    form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    private.write_bytes(key.private_bytes(encoding, form, encryption))
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(encoding, form))
    return private, public


@pytest.fixture
def keys(tmp_path):
    return write_key(ec.generate_private_key(ec.SECP256R1()), tmp_path, "key")


@pytest.fixture
def signed(tmp_path, keys):
    """A folder with a file, its checksum, and the signature."""
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "a.whl").write_text("a")
    write_checksums(folder)
    signature = signer_of(str(keys[0]), pytest.fail).encoded_signature(
        (folder / CHECKSUMS).read_bytes()
    )
    (folder / SIGNATURE).write_text(signature)
    return folder


def refusal(folder, key):
    with pytest.raises(CommandError) as refused:
        verify.check_signature(folder, key)
    return str(refused.value)


def test_the_owner_of_the_key_is_accepted_and_another_one_is_not(signed, keys, tmp_path):
    verify.check_signature(signed, keys[1])
    _, other = write_key(ec.generate_private_key(ec.SECP256R1()), tmp_path, "other")
    assert refusal(signed, other) == (
        f"{SIGNATURE}: must be the signature of {CHECKSUMS} by '{other}'"
    )


def test_openssl_accepts_the_signature_as_cosign_does(signed, keys, tmp_path):
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not on PATH")
    raw = tmp_path / "raw"
    raw.write_bytes(base64.b64decode((signed / SIGNATURE).read_text()))
    check = [openssl, "dgst", "-sha256", "-verify", keys[1], "-signature", raw]
    assert subprocess.run([*check, signed / CHECKSUMS], check=False).returncode == 0
    (signed / CHECKSUMS).write_text("other")
    assert subprocess.run([*check, signed / CHECKSUMS], check=False).returncode == 1


def test_changed_checksums_and_a_signature_that_is_none_are_refused(signed, keys):
    text = (signed / CHECKSUMS).read_text()
    (signed / CHECKSUMS).write_text(text.replace("a.whl", "b.whl"))
    assert refusal(signed, keys[1]).startswith(f"{SIGNATURE}: must be the signature of ")
    (signed / CHECKSUMS).write_text(text)
    for wrong in ("", "no base64", base64.b64encode(b"no signature").decode()):
        (signed / SIGNATURE).write_text(wrong)
        assert refusal(signed, keys[1]).startswith(f"{SIGNATURE}: must be the signature of ")


def test_a_key_needs_a_signature_and_must_be_a_public_one(signed, keys, tmp_path):
    _, other = write_key(rsa.generate_private_key(65537, 2048), tmp_path, "rsa")
    for key in (keys[0], other, tmp_path / "none"):
        assert refusal(signed, key).startswith("--key: must be a PEM file with a public ECDSA ")
    (signed / SIGNATURE).unlink()
    assert refusal(signed, keys[1]).endswith(f"must have {SIGNATURE} for --key, got no such file")


def test_a_release_is_signed_after_its_builds_were_compared(tmp_path, keys, monkeypatch, capsys):
    def build_twice(_repository, _commit, folder):
        (folder / "a.whl").write_text("a")
        write_checksums(folder)

    monkeypatch.setattr(release, "REPOSITORY", tmp_path)
    monkeypatch.setattr(release, "committed", lambda _repository: Commit("0a1b" * 10, 1))
    monkeypatch.setattr(release, "build_twice", build_twice)
    release.release(sign=str(keys[0]))
    folder = tmp_path / "build" / "release"
    verify.check_signature(folder, keys[1])
    assert {*checksums_of(folder)} == {"a.whl"}
    assert capsys.readouterr().out.splitlines()[-1] == f"Signed: build/release/{SIGNATURE}"


def test_a_key_that_cannot_sign_is_refused_before_the_build(tmp_path, monkeypatch):
    monkeypatch.setattr(release, "committed", pytest.fail)
    with pytest.raises(CommandError, match=r"^--sign: must be gcpkms://"):
        release.release(sign=str(tmp_path / "none"))
