"""The attestor of images that were built and scanned: a key, a note and an attestor."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import binaryauthorization, containeranalysis, kms

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels

ALGORITHM = "EC_SIGN_P256_SHA256"
_ATTESTOR_ALGORITHM = "ECDSA_P256_SHA256"
"""The same algorithm in the spelling of Binary Authorization."""


class ImageAttestorArgs(TypedDict):
    """Inputs of `ImageAttestor`."""

    attestor_name: str
    """Name of the attestor and its note."""
    location: str
    """Region of the key."""
    project: pulumi.Input[str]
    """Project of the attestor, note and key."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the key."""
    protect_key: NotRequired[bool]
    """Whether to refuse deletion of the key, without which its signatures are rejected. Default:
    true."""
    signers: NotRequired[list[pulumi.Input[str]]]
    """Members that may sign and attest, such as a build's `serviceAccount:...`. Default: none."""


class ImageAttestor(pulumi.ComponentResource):
    """An asymmetric Cloud KMS key and the Binary Authorization attestor that trusts it.

    The key ring and key have generated names: Cloud KMS deletes neither, so fixed names could not
    be created again. The public key is read with a data source once the key exists.
    """

    attestor: pulumi.Output[str]
    """`projects/P/attestors/NAME`, for use in a policy."""
    key_version: pulumi.Output[str]
    """`projects/.../cryptoKeyVersions/1`, which signs."""

    def __init__(
        self, name: str, args: ImageAttestorArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ImageAttestor", name, {}, opts)
        args = checked(ImageAttestorArgs, args)
        attestor_name = name_of(args, "attestor_name", "compute")
        key, grants = self._build_key(name, args)
        version = kms.get_kms_crypto_key_version_output(
            crypto_key=key.id, opts=pulumi.InvokeOutputOptions(parent=self)
        )
        note = containeranalysis.Note(
            name,
            attestation_authority={
                "hint": {"human_readable_name": "Built, scanned and within its threshold."}
            },
            name=attestor_name,
            project=args["project"],
            opts=under(self),
        )
        attestor = binaryauthorization.Attestor(
            name,
            attestation_authority_note={
                "note_reference": note.name,
                "public_keys": [
                    {
                        "id": version.name.apply(key_uri),
                        "pkix_public_key": {
                            "public_key_pem": version.public_keys.apply(public_half),
                            "signature_algorithm": _ATTESTOR_ALGORITHM,
                        },
                    }
                ],
            },
            name=attestor_name,
            project=args["project"],
            opts=under(self),
        )
        self._build_grants(name, args, attestor, note)
        self.attestor = pulumi.Output.concat("projects/", args["project"], "/attestors/").apply(
            lambda path: f"{path}{attestor_name}"
        )
        self.key_version = pulumi.Output.all(version.name, *[grant.id for grant in grants]).apply(
            lambda known: str(known[0])
        )
        self.register_outputs({"attestor": self.attestor, "keyVersion": self.key_version})

    def _build_key(
        self, name: str, args: ImageAttestorArgs
    ) -> tuple[kms.CryptoKey, list[kms.CryptoKeyIAMMember]]:
        ring = kms.KeyRing(
            name, location=args["location"], project=args["project"], opts=under(self)
        )
        key = kms.CryptoKey(
            name,
            key_ring=ring.id,
            labels=user_labels(args, "images"),
            purpose="ASYMMETRIC_SIGN",
            version_template={"algorithm": ALGORITHM},
            opts=pulumi.ResourceOptions(parent=self, protect=args.get("protect_key", True)),
        )
        grants = [
            kms.CryptoKeyIAMMember(
                f"{name}-signer-{at}",
                crypto_key_id=key.id,
                member=member,
                role="roles/cloudkms.signerVerifier",
                opts=under(self),
            )
            for at, member in enumerate(args.get("signers") or [])
        ]
        return key, grants

    def _build_grants(
        self,
        name: str,
        args: ImageAttestorArgs,
        attestor: binaryauthorization.Attestor,
        note: containeranalysis.Note,
    ) -> None:
        """Let signers read the attestor and attach attestations to its note."""
        for at, member in enumerate(args.get("signers") or []):
            binaryauthorization.AttestorIamMember(
                f"{name}-reader-{at}",
                attestor=attestor.name,
                member=member,
                project=args["project"],
                role="roles/binaryauthorization.attestorsViewer",
                opts=under(self),
            )
            containeranalysis.NoteIamMember(
                f"{name}-notes-{at}",
                member=member,
                note=note.name,
                project=args["project"],
                role="roles/containeranalysis.notes.attacher",
                opts=under(self),
            )


def key_uri(version: str) -> str:
    """Return the key version's ID in attestations."""
    return f"//cloudkms.googleapis.com/v1/{version}"


def public_half(keys: "list[kms.outputs.GetKMSCryptoKeyVersionPublicKeyResult]") -> str:
    """Return the public key of a key version as Cloud KMS reports it.

    Raises:
        ValueError: It reports none.
    """
    if not keys or not keys[0].pem:
        raise ValueError("the key version reports no public key")
    return keys[0].pem
