"""Options of the objects in a cluster: provider, field manager and image replacement."""

import pulumi
import pulumi_kubernetes as kubernetes

from gke_inference.catalogue.versions import replaced
from infra.options.ownership import owned
from infra.plan import RegionPlan
from infra.plan.image_names import replacements
from infra.stack import Layer, Platform


def inside(
    platform: Platform,
    region: RegionPlan,
    kubeconfig: pulumi.Input[str],
    after: list[pulumi.Resource] | None = None,
) -> pulumi.ResourceOptions:
    """Return the options of objects in a cluster: provider, field manager and images.

    Args:
        platform: The stack.
        region: Region of the cluster.
        kubeconfig: Kubeconfig of the cluster.
        after: Dependencies, deleted later: the cluster, if the stack creates it.
    """
    # A new kubeconfig replaces nothing. Where the stack has no cluster, it is found by this name.
    found_by = region.cluster_name if platform.layer is Layer.SERVING else region.name
    # Objects are deleted before the node pools that run them, and a cluster last.
    provider = kubernetes.Provider(
        region.name,
        cluster_identifier=f"{platform.project}/{found_by}",
        kubeconfig=kubeconfig,
        # A run that was killed is finished by the next one. In an existing cluster an object of the
        # same name may be somebody else's: to take it over would be to delete it in the end.
        upsert_existing_objects=region.settings.existing.cluster is None,
        opts=pulumi.ResourceOptions(depends_on=after),
    )
    images = taken_from_repository(platform, region.name)
    return pulumi.ResourceOptions(
        providers=[provider], transformations=[owned(platform), *(images or [])]
    )


def taken_from_repository(
    platform: Platform, region: str
) -> list[pulumi.ResourceTransformation] | None:
    """Return the transform that makes pods pull images from the region's repository."""
    references = replacements(platform, region)
    if not references:
        return None

    def replace(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        return pulumi.ResourceTransformationResult(replaced(args.props, references), args.opts)

    return [replace]
