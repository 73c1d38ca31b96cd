"""Keys of service accounts, and what their IAM grants allow them."""

import os
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from twin.host.paths import TwinPaths
from twin.host.private_files import private_folder, write_private
from twin.wire.property_values import CloudError, last_segment
from twin.world.store import Store

_ACCOUNT: Final = "gcp:serviceaccount/account:Account"
_ON_ACCOUNT: Final = "gcp:serviceaccount/iAMMember:IAMMember"
_ON_BUCKET: Final = "gcp:storage/bucketIAMMember:BucketIAMMember"
_SIGNERS: Final = ("roles/iam.serviceAccountTokenCreator",)
_OBJECTS: Final = {
    "GET": ("roles/storage.objectViewer", "roles/storage.objectUser", "roles/storage.objectAdmin"),
    "PUT": ("roles/storage.objectCreator", "roles/storage.objectUser", "roles/storage.objectAdmin"),
}
_BITS: Final = 2048


class Accounts:
    """The service accounts of the twin."""

    def __init__(self, paths: TwinPaths, store: Store) -> None:
        self._folder = paths.root / "account-keys"
        self._store = store

    def exists(self, email: str) -> bool:
        """Return whether a stack made an account."""
        return any(each.outputs.get("email") == email for each in self._store.find(_ACCOUNT))

    def sign(self, email: str, payload: bytes) -> bytes:
        """Return a signature in the name of an account.

        Raises:
            CloudError: There is no such account, or it may not sign in its own name.
        """
        if not self.exists(email):
            raise CloudError(404, f"Service account {email} not found.", "NOT_FOUND")
        if not self._may_sign(email):
            text = "Permission 'iam.serviceAccounts.signBlob' denied on resource"
            raise CloudError(403, f"{text} {email} (or it may not exist).", "PERMISSION_DENIED")
        return self._key(email).sign(payload, padding.PKCS1v15(), hashes.SHA256())

    def public_key(self, email: str) -> rsa.RSAPublicKey | None:
        """Return the key that verifies the signatures of an account, or None."""
        return self._key(email).public_key() if self.exists(email) else None

    def check_object(self, email: str, method: str, bucket: str) -> None:
        """Reject a call that an account may not make to the objects of a bucket."""
        for grant in self._store.find(_ON_BUCKET):
            if (
                grant.inputs.get("bucket") == bucket
                and grant.inputs.get("member") == f"serviceAccount:{email}"
                and grant.inputs.get("role") in _OBJECTS[method]
            ):
                return
        verb = "get" if method == "GET" else "create"
        text = f"{email} does not have storage.objects.{verb} access to bucket {bucket}."
        raise CloudError(403, text, "AccessDenied")

    def _may_sign(self, email: str) -> bool:
        return any(
            last_segment(str(grant.inputs.get("serviceAccountId"))) == email
            and grant.inputs.get("member") == f"serviceAccount:{email}"
            and grant.inputs.get("role") in _SIGNERS
            for grant in self._store.find(_ON_ACCOUNT)
        )

    def _key(self, email: str) -> rsa.RSAPrivateKey:
        file = self._folder / f"{email}.pem"
        if not file.exists():
            self._create(file)
        found = serialization.load_pem_private_key(file.read_bytes(), None)
        if not isinstance(found, rsa.RSAPrivateKey):
            raise TypeError(f"{file} must be an RSA key")
        return found

    def _create(self, file: Path) -> None:
        private_folder(self._folder)
        key = rsa.generate_private_key(65_537, _BITS)
        content = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        own = file.with_suffix(f".{os.getpid()}")
        write_private(own, content)
        try:
            os.link(own, file)  # the first of two writers wins
        except FileExistsError:
            pass
        finally:
            own.unlink()
