"""The repository that engine images are pulled from, in the region of their nodes."""

import re
from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import artifactregistry

from gke_inference.base.inputs import under, user_labels, whole

_REPOSITORY_ID = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]")
_DAY_SECONDS = 86_400
_SETTINGS = {"kms_key": "kmsKey", "labels": "labels", "untagged_days": "untaggedDays"}
"""Arguments about a repository that is made, and their names in messages."""


class EngineRepositoryArgs(TypedDict):
    """Inputs of `EngineRepository`."""

    location: str
    """Region of the repository. Image streaming works from the region of the nodes."""
    project: pulumi.Input[str]
    """Project of the repository."""
    repository_id: str
    """Name of the repository."""
    existing: NotRequired[bool]
    """Whether the repository exists: it is neither made, changed nor deleted; `readers` and
    `writers` are added to its policy. Default no."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the images; Artifact Registry's service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """More labels for the repository and its bills."""
    readers: NotRequired[list[pulumi.Input[str]]]
    """Members that may pull beside those of the project. Default none."""
    untagged_days: NotRequired[int]
    """Days an image without a tag is kept, 1 to 3650. Default 30."""
    writers: NotRequired[list[pulumi.Input[str]]]
    """Members that may push, such as `serviceAccount:...`. Default none but the project's own."""


class EngineRepository(pulumi.ComponentResource):
    """A Docker repository whose tags never move and whose images are scanned as they arrive.

    Nodes pull with the project's `artifactregistry.reader`, which `InferenceCluster` grants; of a
    repository in another project they have to be `readers`.
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
        exists = args.get("existing", False)
        for field, words in _SETTINGS.items():
            if exists and args.get(field) is not None:
                raise pulumi.InputPropertyError(
                    words, f"must be left out where the repository exists, got {args.get(field)!r}"
                )
        made = None if exists else self._build_repository(name, args)
        behind = under(self, depends_on=[] if made is None else [made])
        roles = {"reader": args.get("readers") or [], "writer": args.get("writers") or []}
        for role, members in roles.items():
            for at, member in enumerate(members):
                artifactregistry.RepositoryIamMember(
                    f"{name}-{role}-{at}",
                    location=args["location"],
                    member=member,
                    project=args["project"],
                    repository=repository_id if made is None else made.name,
                    role=f"roles/artifactregistry.{role}",
                    opts=behind,
                )
        path = pulumi.Output.concat(
            "projects/", args["project"], f"/locations/{args['location']}/repositories/"
        ).apply(lambda parent: f"{parent}{repository_id}")
        self.repository_id = path if made is None else made.id
        self.url = pulumi.Output.concat(
            args["location"], "-docker.pkg.dev/", args["project"], "/", repository_id
        )
        self.register_outputs({"repositoryId": self.repository_id, "url": self.url})

    def _build_repository(
        self, name: str, args: EngineRepositoryArgs
    ) -> artifactregistry.Repository:
        days = whole(args, "untagged_days", 30, least=1, most=3650)
        return artifactregistry.Repository(
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
            repository_id=args["repository_id"],
            vulnerability_scanning_config={"enablement_config": "INHERITED"},
            opts=under(self),
        )
