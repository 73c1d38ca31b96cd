"""Cloud Build steps of our images, as pure functions: build, scan, copy, attest.

A trigger and `gke-inference images build` run the same steps. Nothing is available under a name
that pods use before it is scanned: pods use digests, and attestation is the last step.
"""

import shlex
from dataclasses import dataclass, field, replace
from typing import Any

from gke_inference.catalogue.versions import Build, parts

from .settings import VulnerabilitySeverity

SEVERITIES = tuple(severity.value.upper() for severity in VulnerabilitySeverity)
"""In ascending order, in the spelling of Artifact Analysis."""
TIMEOUT_SECONDS = 7_200
"""Builds pull and push tens of GB."""
DISK_GB = 200

# Google's builders, which Cloud Build caches; they have no published versions.
_DOCKER = "gcr.io/cloud-builders/docker"
_SDK = "gcr.io/google.com/cloudsdktool/cloud-sdk:slim"
# Google's examples scan with this one. That the slim one lacks the component local-extract, which
# reads the packages of an image, is assumed.
_SCANNER = "gcr.io/cloud-builders/gcloud"


@dataclass(frozen=True)
class Step:
    """One step: a builder image and a script.

    Cloud Build expands its substitutions in `env`, never in a script.
    """

    id: str
    image: str
    script: str
    env: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Target:
    """Destination of a build, and its requirements."""

    build: Build
    repositories: tuple[str, ...]
    """`LOCATION-docker.pkg.dev/PROJECT/NAME` of each region. The build pushes to the first one."""
    revision: str
    """Commit, part of the tag. In a trigger `$COMMIT_SHA`, which Cloud Build expands."""
    refuse_severity: str = "CRITICAL"
    """Minimum severity that fails a build."""
    attestor: str | None = None
    """`projects/P/attestors/NAME`, or None for no attestation."""
    key_version: str | None = None
    """Key version that signs. Required with `attestor`."""

    @property
    def tag(self) -> str:
        """Tag of the image: engine release and commit."""
        return f"{self.build.version}-{self.revision}"

    def name(self, repository: str) -> str:
        """Return the image's name in a repository, without a tag."""
        return f"{repository}/{self.build.target}"


class BuildError(ValueError):
    """An invalid target, described in one line."""


def steps(target: Target) -> list[Step]:
    """Return the steps of a build.

    Raises:
        BuildError: The base is not pinned, a severity is unknown, or an attestor has no key.
    """
    build = target.build
    if build.unpinned:
        raise BuildError(
            f"{build.unpinned[0]}: has no digest in versions.yaml: run `gke-inference images pin`"
        )
    if target.refuse_severity not in SEVERITIES:
        known = ", ".join(SEVERITIES)
        raise BuildError(f"severity must be one of {known}, got {target.refuse_severity!r}")
    if target.attestor is not None and target.key_version is None:
        raise BuildError("an attestor must come with the key version that signs")
    inside = replace(target, revision="$REVISION")
    made = [_build_step(inside, target.revision), _scan_step(target)]
    if len(target.repositories) > 1:
        made.append(_copy_step(inside, target.revision))
    if target.attestor is not None:
        made.append(_attest_step(target))
    return made


METADATA = "built.json"


def build_command(target: Target, *, push: bool = True, metadata: str = METADATA) -> list[str]:
    """Return the BuildKit command for an image, to run in the parent of `workloads/`.

    Args:
        target: Image to build, and its destination.
        push: Whether to push it.
        metadata: File to which BuildKit writes the digest.
    """
    build, first = target.build, target.repositories[0]
    return [
        "docker", "buildx", "build",
        "--file", "workloads/images/Dockerfile",
        "--target", build.target,
        "--platform", "linux/amd64",
        "--build-arg", f"IMAGE={build.target}",
        "--build-arg", f"BASE={build.base.reference}",
        *(
            word
            for name, image in parts().items()
            for word in ("--build-arg", f"{name}={image.reference}")
        ),
        "--build-arg", f"ENGINE_VERSION={build.version}",
        "--build-arg", f"REVISION={target.revision}",
        "--provenance", "mode=max",
        "--sbom", "true",
        "--metadata-file", metadata,
        "--tag", f"{target.name(first)}:{target.tag}",
        *(["--push"] if push else []),
        "workloads",
    ]  # fmt: skip


def _build_step(target: Target, revision: str) -> Step:
    reference = target.name(target.repositories[0])
    inspect = '{{range .Manifest.Manifests}}{{if eq .Platform.Architecture "amd64"}}{{.Digest}}'
    return Step(
        "build",
        _DOCKER,
        "\n".join(
            [
                "#!/usr/bin/env bash",
                "set -euo pipefail",
                "docker buildx create --use --driver docker-container",
                _quoted(build_command(target)),
                # the first digest in the metadata is that of the pushed image
                'sed -n \'s/.*"containerimage.digest": *"\\(sha256:[0-9a-f]*\\)".*/\\1/p\''
                f" {METADATA} | head -n 1 > digest",
                "test -s digest",
                # scans need the image of one platform, not the index with its provenance
                f'docker buildx imagetools inspect "{reference}@$(cat digest)"'
                f" --format '{inspect}{{{{end}}}}{{{{end}}}}' > scanned",
            ]
        )
        + "\n",
        {"REVISION": revision},
    )


def _scan_step(target: Target) -> Step:
    bad = SEVERITIES[SEVERITIES.index(target.refuse_severity) :]
    reference = target.name(target.repositories[0])
    return Step(
        "scan",
        _SCANNER,
        "\n".join(
            [
                "#!/usr/bin/env bash",
                "set -euo pipefail",
                f'gcloud artifacts docker images scan "{reference}@$(cat scanned)" --remote'
                " --format='value(response.scan)' > scan",
                'gcloud artifacts docker images list-vulnerabilities "$(cat scan)"'
                " --format='value(vulnerability.effectiveSeverity)' > severities",
                "sort severities | uniq -c",
                f"if grep -qxE '{'|'.join(bad)}' severities; then",
                f'  echo "refused: a known vulnerability of severity {bad[0]} or worse" >&2',
                "  exit 1",
                "fi",
            ]
        )
        + "\n",
    )


def _copy_step(target: Target, revision: str) -> Step:
    first, *others = [target.name(repository) for repository in target.repositories]
    lines = [
        f'docker buildx imagetools create --tag "{other}:{target.tag}" "{first}@$(cat digest)"'
        for other in others
    ]
    head = ["#!/usr/bin/env bash", "set -euo pipefail"]
    return Step("copy", _DOCKER, "\n".join([*head, *lines]) + "\n", {"REVISION": revision})


def _attest_step(target: Target) -> Step:
    head = ["#!/usr/bin/env bash", "set -euo pipefail"]
    lines = [
        f'gcloud container binauthz attestations sign-and-create --artifact-url="'
        f'{target.name(repository)}@$(cat digest)" --attestor="$ATTESTOR" --keyversion="$KEY"'
        for repository in target.repositories
    ]
    env = {"ATTESTOR": str(target.attestor), "KEY": str(target.key_version)}
    return Step("attest", _SDK, "\n".join([*head, *lines]) + "\n", env)


def build_request(target: Target, service_account: str) -> dict[str, Any]:
    """Return the body of Cloud Build's `projects.builds.create`, without the source."""
    return {
        "options": {
            "diskSizeGb": str(DISK_GB),
            "logging": "CLOUD_LOGGING_ONLY",
            "machineType": "E2_HIGHCPU_8",
            "requestedVerifyOption": "VERIFIED",
        },
        "serviceAccount": service_account,
        "steps": [
            {
                "env": [f"{key}={value}" for key, value in sorted(step.env.items())],
                "id": step.id,
                "name": step.image,
                "script": step.script,
            }
            for step in steps(target)
        ],
        "tags": ["gke-inference", target.build.target],
        "timeout": f"{TIMEOUT_SECONDS}s",
    }


def _quoted(argv: list[str]) -> str:
    """Return a command quoted for the shell, with variables expanded."""
    return " ".join(f'"{word}"' if "$" in word else shlex.quote(word) for word in argv)
