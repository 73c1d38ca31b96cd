"""The secret with the hashes of client keys, and its readers."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import secretmanager

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels

READER = "roles/secretmanager.secretAccessor"


class ClientKeysArgs(TypedDict):
    """Inputs of `ClientKeys`."""

    project: pulumi.Input[str]
    """Project of the secret."""
    secret_id: str
    """Name of the secret."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the secret."""
    locations: NotRequired[list[str]]
    """Regions that store replicas of the secret. Required in an organization that restricts
    resource locations. Default: Google chooses."""
    readers: NotRequired[list[pulumi.Input[str]]]
    """Members that may read it: the principals of the gates. Default: none."""


class ClientKeys(pulumi.ComponentResource):
    """A secret without a version. `gke-inference clients keys create` adds the first one.

    The Pulumi program, its state and its logs never contain keys, and the secret contains only
    hashes.
    """

    secret: pulumi.Output[str]
    """`projects/P/secrets/NAME`."""

    def __init__(
        self, name: str, args: ClientKeysArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ClientKeys", name, {}, opts)
        args = checked(ClientKeysArgs, args)
        locations = args.get("locations", [])
        secret = secretmanager.Secret(
            name,
            labels=user_labels(args, "clients"),
            project=args["project"],
            replication=secretmanager.SecretReplicationArgsDict(
                user_managed={"replicas": [{"location": location} for location in locations]}
            )
            if locations
            else secretmanager.SecretReplicationArgsDict(auto={}),
            secret_id=name_of(args, "secret_id", "compute"),
            opts=under(self),
        )
        for at, member in enumerate(args.get("readers", [])):
            secretmanager.SecretIamMember(
                f"{name}-reader-{at}",
                member=member,
                project=args["project"],
                role=READER,
                secret_id=secret.secret_id,
                opts=under(self),
            )
        self.secret = pulumi.Output.concat(
            "projects/", args["project"], "/secrets/", secret.secret_id
        )
        self.register_outputs({"secret": self.secret})
