"""Personalized images: the service on Cloud Run, and the worker in one region."""

import json
from typing import Final

import pulumi

from gke_inference.catalogue.versions import image, replaced
from gke_inference.cluster.workload_identity import (
    BucketAccessArgs,
    WorkloadIdentity,
    WorkloadIdentityArgs,
    principal,
)
from gke_inference.personal.personal_front import PersonalFront, PersonalFrontArgs
from gke_inference.personal.personal_worker import PersonalWorker, PersonalWorkerArgs
from infra.plan import RegionPlan
from infra.plan.front import endpoint
from infra.plan.names import resolve_names
from infra.plan.queue_places import queue_region, team_namespace
from infra.plan.storage import path_of
from infra.stack import PersonalImages, Platform
from workloads.engine.diffusion import TEXT_ENCODER_BITS
from workloads.engine.weights_manifest import split


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
    personal = personal_in(platform, region.name)
    if personal is None:
        return
    behind = pulumi.ResourceOptions.merge(inside, pulumi.ResourceOptions(depends_on=after))
    # A project has no workload pool, and therefore no principals, before its first cluster.
    front = PersonalFront(
        f"{region.name}-personal",
        front_args(platform, personal, region),
        pulumi.ResourceOptions(depends_on=after),
    )
    identities: list[pulumi.Resource] = [
        WorkloadIdentity(f"{region.name}-{account}-identity", args, behind)
        for account, args in identity_args(
            platform, personal, front.bucket_name, models_bucket
        ).items()
    ]
    PersonalWorker(
        f"{region.name}-{WORKER}",
        worker_args(platform, personal, region, front, models_bucket, address),
        pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=identities)),
    )


WORKER: Final = "personal-worker"
"""Name of the worker's objects and service account."""
TRAINER: Final = "personal-trainer"
"""Service account of the training jobs."""


def personal_in(platform: Platform, region: str) -> PersonalImages | None:
    """Return the settings of personalized images, if their queue is in a region."""
    personal = platform.personal_images
    if personal is None or queue_region(platform, platform.queues[personal.queue]) != region:
        return None
    return personal


def identity_args(
    platform: Platform,
    personal: PersonalImages,
    users: pulumi.Input[str],
    weights: pulumi.Input[str],
) -> dict[str, WorkloadIdentityArgs]:
    """Return the arguments of the identities of worker and training jobs, by service account.

    Args:
        platform: The stack.
        personal: Its settings.
        users: Bucket of the users' data.
        weights: Bucket of the models' weights.
    """
    grants = {
        WORKER: {"personal": BucketAccessArgs(access="write", bucket=users)},
        TRAINER: {
            "personal": BucketAccessArgs(access="read", bucket=users),
            "weights": BucketAccessArgs(access="read", bucket=weights),
        },
    }
    return {
        account: WorkloadIdentityArgs(
            bucket_roles=roles,
            namespace=team_namespace(personal.team),
            project=platform.project,
            project_number=str(platform.project_number),
            service_account_name=account,
        )
        for account, roles in grants.items()
    }


def front_args(
    platform: Platform,
    personal: PersonalImages,
    region: RegionPlan,
) -> PersonalFrontArgs:
    """Return the arguments of the service."""
    names = resolve_names(platform)
    args = PersonalFrontArgs(
        account_id=names.personal_account(),
        bucket_name=names.personal_bucket(region.name),
        callback_hosts=list(personal.callback_hosts),
        callers=list(personal.callers),
        force_destroy=not platform.protection,
        image=_image(platform, region, "personal"),
        labels={"env": platform.environment},
        max_images=personal.max_images,
        max_photos=personal.max_photos,
        max_open_sets=personal.max_open_sets,
        project=platform.project,
        project_number=str(platform.project_number),
        region=region.name,
        retention_days=personal.retention_days,
        service_name=names.personal(),
        worker=principal(
            platform.project,
            str(platform.project_number),
            team_namespace(personal.team),
            WORKER,
        ),
    )
    if personal.nearline_after_days is not None:
        args["nearline_after_days"] = personal.nearline_after_days
    if personal.coldline_after_days is not None:
        args["coldline_after_days"] = personal.coldline_after_days
    if personal.archive_after_days is not None:
        args["archive_after_days"] = personal.archive_after_days
    if region.settings.data_key is not None:
        args["kms_key"] = region.settings.data_key
    return args


def _image(platform: Platform, region: RegionPlan, name: str) -> str:
    """Return the reference of an image of ours, in the region's repository if it is there."""
    return replaced(image(name).reference, region.images.replacements)


def worker_args(
    platform: Platform,
    personal: PersonalImages,
    region: RegionPlan,
    front: PersonalFront,
    models_bucket: pulumi.Input[str],
    address: pulumi.Output[str],
) -> PersonalWorkerArgs:
    """Return the arguments of the worker."""
    model = platform.models[personal.model]
    folder, version = split(model.weights)
    training = {
        "folder": folder if version is None else f"{folder}/{version}",
        "prompt": personal.prompt,
        "rank": personal.rank,
        "size": model.images.sizes[0] if model.images is not None else "1024x1024",
        "steps": personal.steps,
        "text_encoder_bits": TEXT_ENCODER_BITS,
        "text_tokens": model.context,
    }
    args = PersonalWorkerArgs(
        adapters=path_of(personal.model, model),
        bucket=front.bucket_name,
        callback_secret=personal.callback_secret,
        endpoint=address.apply(lambda found: endpoint(platform.gateway, found)),
        erasures_subscription=front.erasures_subscription,
        model=personal.model,
        models_bucket=models_bucket,
        namespace=team_namespace(personal.team),
        queue=personal.queue,
        retention_days=personal.retention_days,
        service_account=WORKER,
        sets_per_worker=personal.sets_per_worker,
        subscription=front.subscription,
        train_seconds=personal.train_seconds,
        trainer_account=TRAINER,
        trainer_image=_image(platform, region, "diffusion_tpu"),
        training={key: json.dumps(value) for key, value in training.items()},
        worker_name=WORKER,
    )
    if personal.key_secret is not None:
        args["key_secret"] = personal.key_secret
    return args
