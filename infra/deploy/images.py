"""Wires images: a repository in each region, builds, attestations, and image replacement."""

import pulumi

from gke_inference.catalogue.versions import builds, third_party_registries
from gke_inference.images.admission import ImageAdmission, ImageAdmissionArgs
from gke_inference.images.attestor import ImageAttestor, ImageAttestorArgs
from gke_inference.images.build import ImageBuild, ImageBuildArgs
from gke_inference.images.builder import ImageBuilder, ImageBuilderArgs
from gke_inference.images.pull_through import (
    PullThrough,
    PullThroughArgs,
)
from gke_inference.images.repository import EngineRepository, EngineRepositoryArgs
from gke_inference.images.sources import ImageSources, ImageSourcesArgs
from infra.plan import Plan
from infra.plan.image_names import built, engines, repository_url
from infra.plan.names import resolve_names
from infra.stack import Attestation, Images, Platform
from infra.stack.images import ImageBuilds, Source


def build_images(plan: Plan, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Build the image supply chain, and return the dependencies of clusters that run images."""
    platform = plan.platform
    images = platform.images
    if images is None:
        return []
    builder = None
    if images.build is not None:
        args = ImageBuilderArgs(
            account_id=resolve_names(platform).image_builder(), project=platform.project
        )
        builder = ImageBuilder("images-builder", args, opts)
    members = [] if builder is None else [builder.member]
    made: list[pulumi.Resource] = [
        EngineRepository(f"{region}-images", args, opts)
        for region in platform.regions
        if (args := _repository(platform, images, region, members)) is not None
    ]
    attestor = None
    if images.is_attested:
        attestor = ImageAttestor("images", _attestor(platform, members), opts)
        admission = _admission(plan, images, attestor)
        made.append(ImageAdmission("images-admission", admission, opts))
    if images.build is not None and builder is not None:
        if images.build.source is None:
            ImageSources("images-sources", _sources(platform, builder), opts)
        else:
            triggers = _build(plan, images.build, images.build.source, builder, attestor)
            behind = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=made))
            ImageBuild("images-build", triggers, behind)
    return made


def build_pull_through(platform: Platform, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Build the caches of third-party images, on which clusters that run these depend."""
    settings = None if platform.images is None else platform.images.pull_through
    if settings is None:
        return []
    keys = {name: region.data_key for name, region in platform.regions.items()}
    args = PullThroughArgs(
        credentials=settings.credentials,
        keep_days=settings.keep_days,
        kms_keys={name: key for name, key in keys.items() if key is not None},
        labels={"env": platform.environment},
        locations=list(platform.regions),
        project=platform.project,
        project_number=str(platform.project_number),
        registries=list(third_party_registries()),
        repository_prefix=settings.name,
    )
    return [PullThrough("pull-through", args, opts)]


def let_nodes_pull(
    platform: Platform, region: str, node_account: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Allow nodes to pull from an existing repository in another project."""
    existing = platform.regions[region].existing.repository
    if existing is None or existing.split("/")[1] == platform.project:
        return []
    args = _existing(existing)
    args["readers"] = [pulumi.Output.concat("serviceAccount:", node_account)]
    return [EngineRepository(f"{region}-images-nodes", args, opts)]


def _existing(repository: str) -> EngineRepositoryArgs:
    _, project, _, location, _, name = repository.split("/")
    return EngineRepositoryArgs(
        existing=True, location=location, project=project, repository_id=name
    )


def _repository(
    platform: Platform, images: Images, region: str, writers: list[pulumi.Output[str]]
) -> EngineRepositoryArgs | None:
    existing = platform.regions[region].existing.repository
    if existing is not None:
        args = _existing(existing)
        args["writers"] = [*writers]
        return args if writers else None
    if images.repository is None:
        raise ValueError(f"images.repository must be set for {region}")
    args = EngineRepositoryArgs(
        labels={"env": platform.environment},
        location=region,
        project=platform.project,
        repository_id=images.repository,
    )
    if writers:
        args["writers"] = [*writers]
    key = platform.regions[region].data_key
    if key is not None:
        args["kms_key"] = key
    return args


def _attestor(platform: Platform, signers: list[pulumi.Output[str]]) -> ImageAttestorArgs:
    args = ImageAttestorArgs(
        attestor_name=resolve_names(platform).attestor(),
        labels={"env": platform.environment},
        location=next(iter(platform.regions)),
        project=platform.project,
        protect_key=platform.protection,
    )
    if signers:
        args["signers"] = [*signers]
    return args


def _admission(plan: Plan, images: Images, attestor: ImageAttestor) -> ImageAdmissionArgs:
    return ImageAdmissionArgs(
        attestors=[attestor.attestor],
        audit_only=images.attestation is Attestation.AUDIT,
        clusters=[f"{each.location}.{each.cluster_name}" for each in plan.regions.values()],
        project=plan.platform.project,
    )


def _sources(platform: Platform, builder: ImageBuilder) -> ImageSourcesArgs:
    name, region = next(iter(platform.regions.items()))
    args = ImageSourcesArgs(
        bucket_name=resolve_names(platform).image_sources(),
        labels={"env": platform.environment},
        location=name,
        project=platform.project,
        reader=builder.member,
    )
    if region.data_key is not None:
        args["kms_key"] = region.data_key
    return args


def _build(
    plan: Plan,
    settings: ImageBuilds,
    source: Source,
    builder: ImageBuilder,
    attestor: ImageAttestor | None,
) -> ImageBuildArgs:
    platform = plan.platform
    args = ImageBuildArgs(
        branch=source.branch,
        builder=builder.email,
        images=[name for name in built(plan) if _is_pinned(name)],
        location=source.repository.split("/")[3],
        project=platform.project,
        refuse_severity=settings.refuse_severity,
        repositories=[repository_url(platform, region) for region in platform.regions],
        source_repository=source.repository,
    )
    for name in sorted(engines(plan) | {*built(plan)}):
        if not _is_pinned(name):
            pulumi.log.warn(
                f"images.build: {name} is not built, because its base image has no digest:"
                " run `gke-inference images pin`"
            )
    if attestor is not None:
        args["attestor"] = attestor.attestor
        args["key_version"] = attestor.key_version
    return args


def _is_pinned(name: str) -> bool:
    """Return whether the base of our image has a digest. Images are built only from such bases."""
    build = builds().get(name)
    return build is not None and bool(build.base.digest)
