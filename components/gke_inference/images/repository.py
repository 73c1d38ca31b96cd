"""The repository that nodes pull engine images from, in their region."""

import re
from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import artifactregistry

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under, user_labels

from .settings import KeepDays

_REPOSITORY_ID = re.compile(r"[a-z][a-z0-9-]{0,61}[a-z0-9]")
_DAY_SECONDS = 86_400
_UNTAGGED_DAYS = 30
_SETTINGS = {"kms_key": "kmsKey", "labels": "labels", "untagged_days": "untaggedDays"}
"""Arguments that apply only to a created repository, and their names in messages."""


class EngineRepositoryArgs(TypedDict):
    """Inputs of `EngineRepository`."""

    location: str
    """Region of the repository. Image streaming works from the region of the nodes."""
    project: pulumi.Input[str]
    """Project of the repository."""
    repository_id: str
    """Name of the repository."""
    existing: NotRequired[bool]
    """Whether the repository exists. If so, it is not created, changed or deleted; only `readers`
    and `writers` are added to its policy. Default: false."""
    kms_key: NotRequired[pulumi.Input[str]]
    """Cloud KMS key of the images; Artifact Registry's service agent must be allowed to use it."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the repository, which also appear in billing."""
    readers: NotRequired[list[pulumi.Input[str]]]
    """Members that may pull in addition to those of the project. Default: none."""
    untagged_days: NotRequired[KeepDays]
    """Days that an untagged image is kept. Default: 30."""
    writers: NotRequired[list[pulumi.Input[str]]]
    """Members that may push, such as `serviceAccount:...`. Default: only those of the project."""


class EngineRepository(pulumi.ComponentResource):
    """A Docker repository with immutable tags and vulnerability scanning on push.

    Nodes pull with the project's `artifactregistry.reader`, which `InferenceCluster` grants. For a
    repository in another project, add them to `readers`.
    """

    repository_id: pulumi.Output[str]
    """`projects/P/locations/L/repositories/NAME`."""
    url: pulumi.Output[str]
    """`LOCATION-docker.pkg.dev/PROJECT/NAME`, the prefix of image references."""

    def __init__(
        self, name: str, args: EngineRepositoryArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:EngineRepository", name, {}, opts)
        args = checked(EngineRepositoryArgs, args)
        repository_id = args["repository_id"]
        if not _REPOSITORY_ID.fullmatch(repository_id):
            raise pulumi.InputPropertyError(
                "repositoryId",
                f"must be 2 to 63 lowercase letters, digits and '-', got {repository_id!r}",
            )
        exists = args.get("existing", False)
        for field, words in _SETTINGS.items():
            if exists and args.get(field) is not None:
                raise pulumi.InputPropertyError(
                    words, f"must not be set when the repository exists, got {args.get(field)!r}"
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
                    repository=repository_id,
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
        days = args.get("untagged_days", _UNTAGGED_DAYS)
        return artifactregistry.Repository(
            name,
            # With immutable tags, a tagged image cannot be deleted, not even by a cleanup policy.
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
