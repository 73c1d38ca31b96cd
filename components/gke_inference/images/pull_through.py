"""Remote repositories: caches of other registries' images, in the region of the nodes."""

import re
from typing import Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import artifactregistry, secretmanager

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under, user_labels
from gke_inference.base.propagation import until_effective
from gke_inference.base.service_agents import ARTIFACT_REGISTRY
from gke_inference.catalogue.versions import DOCKER_HUB, remote_repository
from gke_inference.settings.fields import Hostname

from .settings import KEEP_DAYS, KeepDays, UpstreamCredentials

_DAY_SECONDS = 86_400
_KEPT_VERSIONS = 3
_REPOSITORY_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


class PullThroughArgs(TypedDict):
    """Inputs of `PullThrough`."""

    locations: list[str]
    """Regions with remote repositories. Image streaming works from the region of the nodes."""
    project: pulumi.Input[str]
    """Project of the repositories."""
    project_number: pulumi.Input[str]
    """Number of that project, for its Artifact Registry service agent."""
    registries: list[Hostname]
    """Host names of the registries, such as `docker.io` or `ghcr.io`."""
    repository_prefix: str
    """Prefix of the repositories' names: PREFIX-docker-io for `docker.io`."""
    credentials: NotRequired[dict[str, UpstreamCredentials]]
    """Credentials by registry. Default: none, images are pulled anonymously."""
    keep_days: NotRequired[KeepDays]
    """Days that an image is cached; the last three versions of each image are always kept.
    Default: 90."""
    kms_keys: NotRequired[dict[str, pulumi.Input[str]]]
    """Cloud KMS key of the images by region; Artifact Registry's service agent must be allowed to
    use it. Default: Google's keys."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the repositories, which also appear in billing."""


class PullThrough(pulumi.ComponentResource):
    """A remote repository for each registry and region, which caches what is pulled through it.

    Nodes pull with the project's `artifactregistry.reader`, which `InferenceCluster` grants.
    """

    urls: pulumi.Output[dict[str, str]]
    """Prefix of image references by LOCATION/REGISTRY, in place of the registry."""

    def __init__(
        self, name: str, args: PullThroughArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:PullThrough", name, {}, opts)
        args = checked(PullThroughArgs, args)
        names = _names(args)
        days = args.get("keep_days", KEEP_DAYS)
        logins = _logins(args)
        hooks = until_effective(self, name) if logins else None
        readable = self._let_agent_read(name, args, logins, hooks)
        urls: dict[str, pulumi.Output[str]] = {}
        for location in args["locations"]:
            for registry, repository_id in names.items():
                artifactregistry.Repository(
                    f"{name}-{location}-{registry.replace('.', '-')}",
                    cleanup_policies=_cleanup(days),
                    description=f"Cache of images from {registry}.",
                    format="DOCKER",
                    kms_key_name=(args.get("kms_keys") or {}).get(location),
                    labels=user_labels(args, "images"),
                    location=location,
                    mode="REMOTE_REPOSITORY",
                    project=args["project"],
                    remote_repository_config=_remote(registry, logins.get(registry)),
                    repository_id=repository_id,
                    vulnerability_scanning_config={"enablement_config": "INHERITED"},
                    opts=under(
                        self, depends_on=readable, hooks=hooks if registry in logins else None
                    ),
                )
                urls[f"{location}/{registry}"] = pulumi.Output.concat(
                    location, "-docker.pkg.dev/", args["project"], "/", repository_id
                )
        self.urls = pulumi.Output.all(**urls)
        self.register_outputs({"urls": self.urls})

    def _let_agent_read(
        self,
        name: str,
        args: PullThroughArgs,
        logins: dict[str, UpstreamCredentials],
        hooks: pulumi.ResourceHookBinding | None,
    ) -> list[pulumi.Resource]:
        """Allow the service agent to read the passwords, each secret once."""
        if not logins:
            return []
        agent = ARTIFACT_REGISTRY.ensure(name, args["project"], self)
        secrets = {_secret(login.secret) for login in logins.values()}
        member = pulumi.Output.from_input(args["project_number"]).apply(ARTIFACT_REGISTRY.member)
        return [
            secretmanager.SecretIamMember(
                f"{name}-secret-{secret}",
                member=member,
                project=project,
                role="roles/secretmanager.secretAccessor",
                secret_id=f"projects/{project}/secrets/{secret}",
                opts=under(self, depends_on=[agent], hooks=hooks),
            )
            for project, secret in sorted(secrets)
        ]


def _names(args: PullThroughArgs) -> dict[str, str]:
    """Return the name of the repository of each registry."""
    names: dict[str, str] = {}
    for registry in args["registries"]:
        names[registry] = remote_repository(args["repository_prefix"], registry)
        if not _REPOSITORY_ID.fullmatch(names[registry]):
            raise pulumi.InputPropertyError(
                "repositoryPrefix",
                "must be lowercase letters, digits and '-', at most 63 with the registry,"
                f" got {names[registry]!r}",
            )
    return names


def _logins(args: PullThroughArgs) -> dict[str, UpstreamCredentials]:
    logins = dict(args.get("credentials") or {})
    for registry in logins:
        where = f"credentials.{registry}"
        if registry not in args["registries"]:
            known = ", ".join(args["registries"])
            raise pulumi.InputPropertyError(where, f"must be for one of {known}, got {registry!r}")
    return logins


def _secret(version: str) -> tuple[str, str]:
    """Return the project and the name of a version's secret."""
    _, project, _, secret, _, _ = version.split("/")
    return project, secret


def _remote(registry: str, login: UpstreamCredentials | None) -> Any:
    """Return the upstream of a registry's repository."""
    upstream: dict[str, Any] = {"custom_repository": {"uri": f"https://{registry}"}}
    if registry == DOCKER_HUB:
        upstream = {"public_repository": "DOCKER_HUB"}
    config: dict[str, Any] = {"docker_repository": upstream}
    if login is not None:
        config["upstream_credentials"] = {
            "username_password_credentials": {
                "password_secret_version": login.secret,
                "username": login.username,
            }
        }
    return config


def _cleanup(days: int) -> list[Any]:
    """Return the cleanup policies. An image that is deleted is cached again at the next pull."""
    return [
        {"action": "DELETE", "condition": {"older_than": f"{days * _DAY_SECONDS}s"}, "id": "old"},
        {
            "action": "KEEP",
            "id": "newest",
            "most_recent_versions": {"keep_count": _KEPT_VERSIONS},
        },
    ]
