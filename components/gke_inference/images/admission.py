"""Admission of images to the clusters of a project."""

import re
from typing import Annotated, NotRequired, TypedDict

import pulumi
from pulumi_gcp import binaryauthorization
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under

_CLUSTER = re.compile(r"[a-z]+-[a-z]+\d+(-[a-z0-9]+)?\.[a-z][-a-z0-9]*")


class ImageAdmissionArgs(TypedDict):
    """Inputs of `ImageAdmission`."""

    attestors: Annotated[list[pulumi.Input[str]], Field(min_length=1)]
    """Attestors that must all have signed an image: `ImageAttestor.attestor`."""
    clusters: list[str]
    """Clusters that the rule applies to, as `LOCATION.NAME`. Other clusters of the project are not
    affected."""
    project: pulumi.Input[str]
    """Project of the clusters. It has one policy, so two stacks in one project overwrite each
    other's."""
    audit_only: NotRequired[bool]
    """Whether to only log violations instead of rejecting images. Default: false."""


class ImageAdmission(pulumi.ComponentResource):
    """The project's Binary Authorization policy: these clusters run only attested images.

    GKE's system images are allowed by Google's global policy.
    """

    def __init__(
        self, name: str, args: ImageAdmissionArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ImageAdmission", name, {}, opts)
        args = checked(ImageAdmissionArgs, args)
        for cluster in args["clusters"]:
            if not _CLUSTER.fullmatch(cluster):
                raise pulumi.InputPropertyError(
                    "clusters", f"must be LOCATION.NAME such as us-east5.prod, got {cluster!r}"
                )
        mode = "DRYRUN_AUDIT_LOG_ONLY" if args.get("audit_only") else "ENFORCED_BLOCK_AND_AUDIT_LOG"
        binaryauthorization.Policy(
            name,
            cluster_admission_rules=[
                {
                    "cluster": cluster,
                    "enforcement_mode": mode,
                    "evaluation_mode": "REQUIRE_ATTESTATION",
                    "require_attestations_bies": args["attestors"],
                }
                for cluster in sorted(args["clusters"])
            ],
            default_admission_rule={
                "enforcement_mode": "ENFORCED_BLOCK_AND_AUDIT_LOG",
                "evaluation_mode": "ALWAYS_ALLOW",
            },
            description="Clusters of gke-inference run attested images.",
            global_policy_evaluation_mode="ENABLE",
            project=args["project"],
            opts=under(self),
        )
        self.register_outputs({})
