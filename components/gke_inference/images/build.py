"""Cloud Build triggers for our own images."""

import re
from typing import NotRequired, TypedDict

import pulumi
from pulumi_gcp import cloudbuild

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.catalogue.versions import builds
from gke_inference.settings.fields import Branch, SourceRepository

from .build_steps import DISK_GB, TIMEOUT_SECONDS, BuildError, Target, steps
from .settings import DEFAULT_BRANCH, VulnerabilitySeverity


class ImageBuildArgs(TypedDict):
    """Inputs of `ImageBuild`."""

    builder: pulumi.Input[str]
    """Email of the service account that builds: `ImageBuilder.email`."""
    images: list[str]
    """Images to build, by their names in the lock, such as `vllm_gpu`."""
    location: str
    """Region of the triggers, which is that of the connection."""
    project: str
    """Project of the builds."""
    repositories: list[str]
    """`LOCATION-docker.pkg.dev/PROJECT/NAME` of each region. Builds push to the first one."""
    source_repository: SourceRepository
    """Repository with these sources that is connected to Cloud Build, as
    `projects/P/locations/L/connections/C/repositories/R`."""
    attestor: NotRequired[pulumi.Input[str]]
    """`ImageAttestor.attestor`. Default: no attestation."""
    branch: NotRequired[Branch]
    """Branch whose pushes trigger a build. Default: `main`."""
    key_version: NotRequired[pulumi.Input[str]]
    """`ImageAttestor.key_version`. Required with `attestor`."""
    refuse_severity: NotRequired[VulnerabilitySeverity]
    """Minimum severity of a known vulnerability that fails a build. Default: `critical`."""


class ImageBuild(pulumi.ComponentResource):
    """A trigger for each image: a push to the branch builds, scans, copies and attests it."""

    triggers: pulumi.Output[list[str]]
    """Names of the triggers, sorted."""

    def __init__(
        self, name: str, args: ImageBuildArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:ImageBuild", name, {}, opts)
        args = checked(ImageBuildArgs, args)
        made = [self._build_trigger(name, args, image) for image in sorted(args["images"])]
        self.triggers = pulumi.Output.all(*[trigger.name for trigger in made]).apply(
            lambda names: sorted(str(each) for each in names)
        )
        self.register_outputs({"triggers": self.triggers})

    def _build_trigger(self, name: str, args: ImageBuildArgs, image: str) -> cloudbuild.Trigger:
        build = builds().get(image)
        if build is None:
            known = ", ".join(builds())
            raise pulumi.InputPropertyError("images", f"must be of {known}, got {image!r}")
        target = Target(
            attestor="$_ATTESTOR" if "attestor" in args else None,
            build=build,
            key_version="$_KEY_VERSION" if "key_version" in args else None,
            refuse_severity=args.get(
                "refuse_severity", VulnerabilitySeverity.CRITICAL
            ).value.upper(),
            repositories=tuple(args["repositories"]),
            revision="$COMMIT_SHA",
        )
        substitutions: dict[str, pulumi.Input[str]] = {}
        if "attestor" in args and "key_version" in args:
            substitutions = {"_ATTESTOR": args["attestor"], "_KEY_VERSION": args["key_version"]}
        return cloudbuild.Trigger(
            f"{name}-{build.target}",
            build=_build(target),
            description=f"Builds, scans and attests the image {build.target}.",
            included_files=["workloads/**"],
            location=args["location"],
            name=f"gke-inference-{build.target}",
            project=args["project"],
            repository_event_config={
                "push": {"branch": f"^{re.escape(args.get('branch', DEFAULT_BRANCH))}$"},
                "repository": args["source_repository"],
            },
            service_account=pulumi.Output.concat(
                "projects/", args["project"], "/serviceAccounts/", args["builder"]
            ),
            substitutions=substitutions or None,
            opts=under(self),
        )


def _build(target: Target) -> "cloudbuild.TriggerBuildArgsDict":
    """Return a build in the form of a trigger."""
    try:
        made = steps(target)
    except BuildError as error:
        raise pulumi.InputPropertyError("images", str(error)) from error
    return {
        "options": {
            "disk_size_gb": DISK_GB,
            "logging": "CLOUD_LOGGING_ONLY",
            "machine_type": "E2_HIGHCPU_8",
            "requested_verify_option": "VERIFIED",
        },
        "steps": [
            {
                "envs": [f"{key}={value}" for key, value in sorted(step.env.items())],
                "id": step.id,
                "name": step.image,
                "script": step.script,
            }
            for step in made
        ],
        "tags": ["gke-inference", target.build.target],
        "timeout": f"{TIMEOUT_SECONDS}s",
    }
