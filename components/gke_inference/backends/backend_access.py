"""Permissions of a relay: API key secrets, and Google services that authenticate it."""

from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import cloudrunv2, projects, secretmanager, serviceaccount

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.base.run_services import INVOKER
from gke_inference.settings.fields import CloudRunService, ProjectId, SecretId

from .kinds import AI_USER

_READER = "roles/secretmanager.secretAccessor"
_TOKEN_CREATOR = "roles/iam.serviceAccountOpenIdTokenCreator"  # noqa: S105 (a role)


class BackendAccessArgs(TypedDict):
    """Inputs of `BackendAccess`."""

    principal: pulumi.Input[str]
    """IAM member of the relay's service account, the same in every cluster of the project."""
    project: str
    """Project of the secrets and of the account."""
    account_id: NotRequired[str]
    """ID of the service account that calls Cloud Run. Required with `services`."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the secrets."""
    secrets: NotRequired[list[SecretId]]
    """Names of secrets to create without a version; you add the keys. Default: none."""
    services: NotRequired[list[CloudRunService]]
    """Cloud Run services that it may call."""
    vertex_projects: NotRequired[list[ProjectId]]
    """Projects whose Vertex AI models it may use. Default: none."""


class BackendAccess(pulumi.ComponentResource):
    """Secrets for API keys, and roles limited to the backends of a stack.

    The Pulumi program, its state and its logs never contain keys. GKE's metadata server issues no
    ID token for a Kubernetes service account alone, so a Google service account represents it at
    Cloud Run.
    """

    secret_ids: pulumi.Output[list[str]]
    """Names of the secrets, in the order given."""

    def __init__(
        self, name: str, args: BackendAccessArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:BackendAccess", name, {}, opts)
        args = checked(BackendAccessArgs, args)
        secrets = args.get("secrets", [])
        for secret in secrets:
            self._build_secret(f"{name}-{secret}", secret, args)
        for project in args.get("vertex_projects", []):
            projects.IAMMember(
                f"{name}-vertex-{project}",
                member=args["principal"],
                project=project,
                role=AI_USER,
                opts=under(self),
            )
        if args.get("services"):
            self._build_caller(name, args)
        self.secret_ids = pulumi.Output.from_input(secrets)
        self.register_outputs({"secretIds": self.secret_ids})

    def _build_secret(self, name: str, secret: str, args: BackendAccessArgs) -> None:
        made = secretmanager.Secret(
            name,
            labels=user_labels(args, "backends"),
            project=args["project"],
            replication={"auto": {}},
            secret_id=secret,
            opts=under(self),
        )
        secretmanager.SecretIamMember(
            f"{name}-reader",
            member=args["principal"],
            project=args["project"],
            role=_READER,
            secret_id=made.secret_id,
            opts=under(self),
        )

    def _build_caller(self, name: str, args: BackendAccessArgs) -> None:
        account = serviceaccount.Account(
            f"{name}-caller",
            account_id=name_of(args, "account_id", "service_account"),
            display_name="Calls backends on Cloud Run",
            project=args["project"],
            opts=under(self),
        )
        serviceaccount.IAMMember(
            f"{name}-caller-tokens",
            member=args["principal"],
            role=_TOKEN_CREATOR,
            service_account_id=account.name,
            opts=under(self),
        )
        for service in args.get("services", []):
            _, project, _, location, _, short = service.split("/")
            cloudrunv2.ServiceIamMember(
                f"{name}-{location}-{short}",
                location=location,
                member=account.member,
                name=short,
                project=project,
                role=INVOKER,
                opts=under(self),
            )
