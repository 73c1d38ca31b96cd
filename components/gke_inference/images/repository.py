"""The repository that engine images are pulled from, in the region of their nodes."""

import re
from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import artifactregistry

from gke_inference.base.inputs import under, user_labels, whole

_REPOSITORY_ID = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]")
_DAY_SECONDS = 86_400


class EngineRepositoryArgs(TypedDict):
    """Inputs of `EngineRepository`."""

    location: str
    """Region of the repository. Image streaming works from the region of the nodes."""
    project: pulumi.Input[str]
    """Project of the repository."""
    repository_id: str
    """Name of the repository."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the images; Artifact Registry's service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """More labels for the repository and its bills."""
    untagged_days: NotRequired[int]
    """Days an image without a tag is kept, 1 to 3650. Default 30."""
    writers: NotRequired[list[pulumi.Input[str]]]
    """Members that may push, such as `serviceAccount:...`. Default none but the project's own."""


class EngineRepository(pulumi.ComponentResource):
    """A Docker repository whose tags never move and whose images are scanned as they arrive.

    Nodes pull with the project's `artifactregistry.reader`, which `InferenceCluster` grants.
    """

    repository_id: pulumi.Output[str]
    """`projects/P/locations/L/repositories/NAME`."""
    url: pulumi.Output[str]
    """`LOCATION-docker.pkg.dev/PROJECT/NAME`, what image references begin with."""

    def __init__(
        self, name: str, args: EngineRepositoryArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:EngineRepository", name, {}, opts)
        repository_id = args["repository_id"]
        if not _REPOSITORY_ID.fullmatch(repository_id):
            raise pulumi.InputPropertyError(
                "repositoryId",
                f"must be 2 to 63 lower-case letters, digits and '-', got {repository_id!r}",
            )
        days = whole(args, "untagged_days", 30, least=1, most=3650)
        repository = artifactregistry.Repository(
            name,
            # With immutable tags a tagged image cannot be deleted, by a policy neither.
            cleanup_policies=[
                {
                    "action": "DELETE",
                    "condition": {"older_than": f"{days * _DAY_SECONDS}s", "tag_state": "UNTAGGED"},
                    "id": "untagged",
                }
            ],
            description="Engine images, and copies of the others that the platform runs.",
            docker_config={"immutable_tags": True},
            format="DOCKER",
            kms_key_name=args.get("kms_key"),
            labels=user_labels(args, "images"),
            location=args["location"],
            project=args["project"],
            repository_id=repository_id,
            vulnerability_scanning_config={"enablement_config": "INHERITED"},
            opts=under(self),
        )
        for at, member in enumerate(args.get("writers") or []):
            artifactregistry.RepositoryIamMember(
                f"{name}-writer-{at}",
                location=args["location"],
                member=member,
                project=args["project"],
                repository=repository.name,
                role="roles/artifactregistry.writer",
                opts=under(self),
            )
        self.repository_id = repository.id
        self.url = pulumi.Output.concat(
            args["location"], "-docker.pkg.dev/", args["project"], "/", repository_id
        )
        self.register_outputs({"repositoryId": self.repository_id, "url": self.url})
