"""Options of resources: provider, owner and images in a cluster, and protection of stateful ones.

Protection is part of the stack's state, so it holds for every run, including `pulumi up` and
`pulumi destroy` without any command of this repository. Policies cannot provide it: they see what a
stack will have, not what it loses.
"""

from typing import Any, Final, cast

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference.catalogue.labels import TEAM_LABEL
from gke_inference.catalogue.versions import replaced
from infra.plan import RegionPlan
from infra.plan.image_names import RegionImages
from infra.plan.names import Names
from infra.plan.project import ProjectPlan
from infra.plan.stateful import STATEFUL, may_be_lost, name_in_cloud
from infra.stack import Layer


def inside(
    region: RegionPlan,
    kubeconfig: pulumi.Input[str],
    after: list[pulumi.Resource] | None = None,
) -> pulumi.ResourceOptions:
    """Return the options of objects in a cluster: provider, field manager and images.

    Args:
        region: Region of the cluster.
        kubeconfig: Kubeconfig of the cluster.
        after: Dependencies, deleted later: the cluster, if the stack creates it.
    """
    # A new kubeconfig replaces nothing. Where the stack has no cluster, it is found by this name.
    found_by = region.cluster_name if region.names.layer is Layer.SERVING else region.name
    # Objects are deleted before the node pools that run them, and a cluster last.
    provider = kubernetes.Provider(
        region.name,
        cluster_identifier=f"{region.project.id}/{found_by}",
        kubeconfig=kubeconfig,
        # A run that was killed is finished by the next one. In an existing cluster an object of the
        # same name may be somebody else's: to take it over would be to delete it in the end.
        upsert_existing_objects=region.settings.existing.cluster is None,
        opts=pulumi.ResourceOptions(depends_on=after),
    )
    images = taken_from_repository(region.images)
    return pulumi.ResourceOptions(
        providers=[provider], transformations=[owned(region.names), *(images or [])]
    )


def taken_from_repository(images: RegionImages) -> list[pulumi.ResourceTransformation] | None:
    """Return the transform that makes pods pull images from the region's repository."""
    references = images.replacements
    if not references:
        return None

    def replace(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        return pulumi.ResourceTransformationResult(replaced(args.props, references), args.opts)

    return [replace]


FIELD_MANAGER: Final = "pulumi.com/patchFieldManager"
"""Annotation that names the field manager of an object."""
_TEMPLATES: Final = ("template", "leaderTemplate", "workerTemplate")


def owned(names: Names) -> pulumi.ResourceTransformation:
    """Return the transform that gives all objects of a cluster the same field manager in every run.

    By default, each object has a random field manager that only the state records. Objects left by
    an interrupted run would then have two managers, and the first change of a shared field would
    fail with a conflict. Objects of a team, and their pods, are also labeled with the team.
    """
    manager, team = names.field_manager(), names.team

    def own(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        metadata: Any = args.props.get("metadata")
        if not args.type_.startswith("kubernetes:") or not isinstance(metadata, dict):
            return pulumi.ResourceTransformationResult(args.props, args.opts)
        known = cast("dict[str, Any]", metadata)
        given = cast("dict[str, Any]", known.get("annotations") or {})
        annotations: dict[str, Any] = {**given, FIELD_MANAGER: manager}
        props: dict[str, Any] = {**args.props, "metadata": {**known, "annotations": annotations}}
        return pulumi.ResourceTransformationResult(
            props if team is None else labeled(props, team), args.opts
        )

    return own


def labeled(props: dict[str, Any], team: str) -> dict[str, Any]:
    """Return an object with the label of a team, including its pod templates."""
    spec: Any = props.get("spec")
    with_label = _with_label(props, team)
    if not isinstance(spec, dict):
        return with_label
    return {**with_label, "spec": _templates(cast("dict[str, Any]", spec), team)}


def _with_label(value: dict[str, Any], team: str) -> dict[str, Any]:
    metadata = cast("dict[str, Any]", value.get("metadata") or {})
    labels = {**cast("dict[str, Any]", metadata.get("labels") or {}), TEAM_LABEL: team}
    return {**value, "metadata": {**metadata, "labels": labels}}


def _templates(spec: dict[str, Any], team: str) -> dict[str, Any]:
    """Return a spec whose pod templates have the label: of a Deployment or of a group."""
    made: dict[str, Any] = {}
    for key, value in spec.items():
        if not isinstance(value, dict):
            made[key] = value
        elif key in _TEMPLATES:
            made[key] = _with_label(cast("dict[str, Any]", value), team)
        elif key == "leaderWorkerTemplate":
            made[key] = _templates(cast("dict[str, Any]", value), team)
        else:
            made[key] = value
    return made


def protect_stateful(project: ProjectPlan) -> None:
    """Protect all stateful resources registered from now on, if the stack is protected.

    Resources listed in `allow_replace` are not protected, so one `up` both lifts the protection and
    replaces them.
    """
    if not project.is_protected:
        return

    def protect(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        if args.type_ in STATEFUL and not may_be_lost(
            project.allow_replace, args.name, name_in_cloud(args.props)
        ):
            protected = pulumi.ResourceOptions(protect=True)
            opts = pulumi.ResourceOptions.merge(args.opts, protected)
            return pulumi.ResourceTransformationResult(args.props, opts)
        return pulumi.ResourceTransformationResult(args.props, args.opts)

    pulumi.runtime.register_stack_transformation(protect)
