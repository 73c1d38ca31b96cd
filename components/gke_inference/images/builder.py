"""The service account of image builds."""

from typing import TypedDict

import pulumi
from pulumi_gcp import projects, serviceaccount

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under

ROLES = {
    "logs": "roles/logging.logWriter",
    "occurrences": "roles/containeranalysis.occurrences.editor",
    "scans": "roles/ondemandscanning.admin",
}
"""Project roles of a build: every step writes logs, the step `scan` scans, and the step `attest`
records the attestation as an occurrence. Pushing (steps `build` and `copy`) and signing (`attest`)
are granted on the resources.

A build with its own account needs a role for its logs and for what its steps call
(docs.cloud.google.com/build/docs/securing-builds/configure-user-specified-service-accounts, read
2026-11-24). `roles/cloudbuild.builds.builder` would also let a build write to every repository and
bucket of the project, and start other builds.
"""


class ImageBuilderArgs(TypedDict):
    """Inputs of `ImageBuilder`."""

    account_id: str
    """Account id of the service account."""
    project: str
    """Project of the builds."""


class ImageBuilder(pulumi.ComponentResource):
    """The service account of image builds, known before the resources that it may push to."""

    email: pulumi.Output[str]
    """Email of the account, known at preview."""
    member: pulumi.Output[str]
    """`serviceAccount:EMAIL`."""

    def __init__(
        self, name: str, args: ImageBuilderArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ImageBuilder", name, {}, opts)
        args = checked(ImageBuilderArgs, args)
        account = serviceaccount.Account(
            name,
            account_id=name_of(args, "account_id", "service_account"),
            description="Builds, scans and attests engine images.",
            display_name="Engine images",
            project=args["project"],
            opts=under(self),
        )
        self.email = pulumi.Output.concat(
            account.account_id, "@", args["project"], ".iam.gserviceaccount.com"
        )
        self.member = pulumi.Output.concat("serviceAccount:", self.email)
        for role, path in ROLES.items():
            projects.IAMMember(
                f"{name}-{role}",
                member=self.member,
                project=args["project"],
                role=path,
                opts=under(self, depends_on=[account]),
            )
        self.register_outputs({"email": self.email, "member": self.member})
