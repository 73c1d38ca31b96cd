"""Wires personalized images: the service on Cloud Run, and the worker in one region."""

import pulumi

from gke_inference.cluster.workload_identity import WorkloadIdentity
from gke_inference.personal.personal_front import PersonalFront
from gke_inference.personal.personal_worker import PersonalWorker
from infra.arguments import personal as assemble
from infra.plan import RegionPlan
from infra.stack import Platform


def personalize_images(
    platform: Platform,
    region: RegionPlan,
    models_bucket: pulumi.Input[str],
    address: pulumi.Output[str],
    inside: pulumi.ResourceOptions,
    after: list[pulumi.Resource],
) -> None:
    """Build personalized images, if the stack has them in the region.

    Args:
        platform: The stack.
        region: The region.
        models_bucket: Bucket of the models' weights.
        address: Address of the region's gateway.
        inside: Options with the cluster's Kubernetes provider and dependencies.
        after: Dependencies of the worker: the team's namespace, the folder and the gateway.
    """
    personal = assemble.personal_in(platform, region.name)
    if personal is None:
        return
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=after))
    # A project has no workload pool, and therefore no principals, before its first cluster.
    front = PersonalFront(
        f"{region.name}-personal",
        assemble.front_args(platform, personal, region),
        pulumi.ResourceOptions(depends_on=after),
    )
    identities: list[pulumi.Resource] = [
        WorkloadIdentity(f"{region.name}-{account}-identity", args, behind)
        for account, args in assemble.identity_args(
            platform, personal, front.bucket_name, models_bucket
        ).items()
    ]
    PersonalWorker(
        f"{region.name}-{assemble.WORKER}",
        assemble.worker_args(platform, personal, region, front, models_bucket, address),
        pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=identities)),
    )
