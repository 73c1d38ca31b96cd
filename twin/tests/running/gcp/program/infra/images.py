"""Image delivery, wired as in a platform."""

import pulumi

from gke_inference import (
    EngineRepository,
    ImageAdmission,
    ImageAttestor,
    ImageBuild,
    ImageBuilder,
    PullThrough,
    UpstreamCredentials,
)

PROJECT = "acme"


def deliver(*, audit_only: bool) -> None:
    """Register repositories, a builder, an attestor, a trigger and a policy."""
    builder = ImageBuilder("builder", {"account_id": "acme-images", "project": PROJECT})
    repository = EngineRepository(
        "images",
        {
            "location": "us-east5",
            "project": PROJECT,
            "repository_id": "engines",
            "writers": [builder.member],
        },
    )
    PullThrough(
        "pull-through",
        {
            "credentials": {
                "docker.io": UpstreamCredentials(
                    secret="projects/acme/secrets/hub/versions/1",
                    username="acme",
                )
            },
            "locations": ["us-east5"],
            "project": PROJECT,
            "project_number": "42",
            "registries": ["docker.io", "ghcr.io"],
            "repository_prefix": "upstream",
        },
    )
    attestor = ImageAttestor(
        "images",
        {
            "attestor_name": "acme-images",
            "location": "us-east5",
            "project": PROJECT,
            "protect_key": False,
            "signers": [builder.member],
        },
    )
    ImageBuild(
        "build",
        {
            "attestor": attestor.attestor,
            "builder": builder.email,
            "images": ["vllm_tpu", "diffusion_tpu"],
            "key_version": attestor.key_version,
            "location": "us-east5",
            "project": PROJECT,
            "repositories": ["us-east5-docker.pkg.dev/acme/engines"],
            "source_repository": "projects/acme/locations/us-east5/connections/c/repositories/r",
        },
    )
    ImageAdmission(
        "admission",
        {
            "attestors": [attestor.attestor],
            "audit_only": audit_only,
            "clusters": ["us-east5.acme"],
            "project": PROJECT,
        },
    )
    pulumi.export("repository", repository.url)
    pulumi.export("keyVersion", attestor.key_version)
