"""Wires images: a repository in each region, builds, attestations, and image replacement."""

from collections.abc import Mapping, Sequence

import pulumi

from gke_inference.catalogue.versions import builds, third_party_registries
from gke_inference.images.admission import ImageAdmission, ImageAdmissionArgs
from gke_inference.images.attestor import ImageAttestor, ImageAttestorArgs
from gke_inference.images.build import ImageBuild, ImageBuildArgs
from gke_inference.images.builder import ImageBuilder, ImageBuilderArgs
from gke_inference.images.pull_through import PullThrough as Caches
from gke_inference.images.pull_through import PullThroughArgs
from gke_inference.images.repository import EngineRepository, EngineRepositoryArgs
from gke_inference.images.sources import ImageSources, ImageSourcesArgs
from infra.plan import Plan, RegionPlan
from infra.plan.image_names import ImagesPlan
from infra.plan.project import ProjectPlan
from infra.stack import Attestation, Images
from infra.stack.images import ImageBuilds, PullThrough, Source


def build_images(plan: Plan, opts: pulumi.ResourceOptions) -> list[pulumi.Resource]:
    """Build the image supply chain, and return the dependencies of clusters that run images."""
    images = plan.images.settings
    if images is None:
        return []
    regions = list(plan.regions.values())
    builder = None
    if images.build is not None:
        args = ImageBuilderArgs(account_id=plan.images.builder, project=plan.project.id)
        builder = ImageBuilder("images-builder", args, opts)
    members = [] if builder is None else [builder.member]
    resources: list[pulumi.Resource] = [
        EngineRepository(f"{region.name}-images", args, opts)
        for region in regions
        if (args := _repository(images, region, members)) is not None
    ]
    attestor = None
    if images.is_attested:
        args = _attestor(plan.images.attestor, plan.project, regions[0].name, members)
        attestor = ImageAttestor("images", args, opts)
        admission = _admission(regions, images, attestor)
        resources.append(ImageAdmission("images-admission", admission, opts))
    if images.build is not None and builder is not None:
        if images.build.source is None:
            ImageSources("images-sources", _sources(plan.images, regions[0], builder), opts)
        else:
            triggers = _build(plan.images, images.build, images.build.source, builder, attestor)
            behind = pulumi.ResourceOptions.merge(
                opts, pulumi.ResourceOptions(depends_on=resources)
            )
            ImageBuild("images-build", triggers, behind)
    return resources


def build_pull_through(
    settings: PullThrough,
    project: ProjectPlan,
    regions: Mapping[str, RegionPlan],
    opts: pulumi.ResourceOptions,
) -> Caches:
    """Build the caches of third-party images, on which clusters that run these depend."""
    keys: dict[str, pulumi.Input[str]] = {
        name: region.settings.data_key
        for name, region in regions.items()
        if region.settings.data_key is not None
    }
    args = PullThroughArgs(
        credentials=settings.credentials,
        keep_days=settings.keep_days,
        kms_keys=keys,
        labels=project.labels,
        locations=list(regions),
        project=project.id,
        project_number=project.number,
        registries=list(third_party_registries()),
        repository_prefix=settings.name,
    )
    return Caches("pull-through", args, opts)


def let_nodes_pull(
    region: RegionPlan, node_account: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> list[pulumi.Resource]:
    """Allow nodes to pull from an existing repository in another project."""
    existing = region.settings.existing.repository
    if existing is None or existing.split("/")[1] == region.project.id:
        return []
    args = _existing(existing)
    args["readers"] = [pulumi.Output.concat("serviceAccount:", node_account)]
    return [EngineRepository(f"{region.name}-images-nodes", args, opts)]


def _existing(repository: str) -> EngineRepositoryArgs:
    _, project, _, location, _, name = repository.split("/")
    return EngineRepositoryArgs(
        existing=True, location=location, project=project, repository_id=name
    )


def _repository(
    images: Images, region: RegionPlan, writers: list[pulumi.Output[str]]
) -> EngineRepositoryArgs | None:
    existing = region.settings.existing.repository
    if existing is not None:
        args = _existing(existing)
        args["writers"] = [*writers]
        return args if writers else None
    if images.repository is None:
        raise ValueError(f"images.repository must be set for {region.name}")
    args = EngineRepositoryArgs(
        labels=region.project.labels,
        location=region.name,
        project=region.project.id,
        repository_id=images.repository,
    )
    if writers:
        args["writers"] = [*writers]
    key = region.settings.data_key
    if key is not None:
        args["kms_key"] = key
    return args


def _attestor(
    name: str, project: ProjectPlan, location: str, signers: list[pulumi.Output[str]]
) -> ImageAttestorArgs:
    args = ImageAttestorArgs(
        attestor_name=name,
        labels=project.labels,
        location=location,
        project=project.id,
        protect_key=project.is_protected,
    )
    if signers:
        args["signers"] = [*signers]
    return args


def _admission(
    regions: Sequence[RegionPlan], images: Images, attestor: ImageAttestor
) -> ImageAdmissionArgs:
    return ImageAdmissionArgs(
        attestors=[attestor.attestor],
        audit_only=images.attestation is Attestation.AUDIT,
        clusters=[f"{each.location}.{each.cluster_name}" for each in regions],
        project=regions[0].project.id,
    )


def _sources(images: ImagesPlan, region: RegionPlan, builder: ImageBuilder) -> ImageSourcesArgs:
    """Return the arguments of the bucket with the sources, which is in the first region."""
    args = ImageSourcesArgs(
        bucket_name=images.sources,
        labels=region.project.labels,
        location=region.name,
        project=region.project.id,
        reader=builder.member,
    )
    if region.settings.data_key is not None:
        args["kms_key"] = region.settings.data_key
    return args


def _build(
    images: ImagesPlan,
    settings: ImageBuilds,
    source: Source,
    builder: ImageBuilder,
    attestor: ImageAttestor | None,
) -> ImageBuildArgs:
    built, urls = images.built, [each.repository for each in images.regions.values()]
    args = ImageBuildArgs(
        branch=source.branch,
        builder=builder.email,
        images=[name for name in built if _is_pinned(name)],
        location=source.repository.split("/")[3],
        project=images.project,
        refuse_severity=settings.refuse_severity,
        repositories=[url for url in urls if url is not None],
        source_repository=source.repository,
    )
    for name in sorted(images.engines | {*built}):
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
