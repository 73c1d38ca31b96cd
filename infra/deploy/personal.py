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
from gke_inference.personal.settings import TRAINER_IMAGE
from infra.deploy.built_region import ServedRegion
from infra.deploy.identities import identity_of
from infra.plan import RegionPlan
from infra.plan.image_names import RegionImages
from infra.plan.personal import PersonalPlan
from infra.plan.project import ProjectPlan
from infra.plan.storage import path_of
from workloads.engine.diffusion import TEXT_ENCODER_BITS
from workloads.engine.weights_manifest import split


def personalize_images(served: ServedRegion, needed: list[pulumi.Resource]) -> None:
    """Build personalized images, if the stack has them in the region.

    Args:
        served: The region.
        needed: Dependencies of the worker: the team's namespace, the folder and the gateway.
    """
    region, models_bucket = served.plan, served.buckets["models"]
    personal = region.personal
    if personal is None:
        return
    behind = served.after(*needed)
    # A project has no workload pool, and therefore no principals, before its first cluster.
    front = PersonalFront(
        f"{region.name}-personal",
        front_args(personal, region),
        pulumi.ResourceOptions(depends_on=needed),
    )
    identities: list[pulumi.Resource] = [
        WorkloadIdentity(f"{region.name}-{account}-identity", args, behind)
        for account, args in identity_args(
            personal, region.project, front.bucket_name, models_bucket
        ).items()
    ]
    PersonalWorker(
        f"{region.name}-{WORKER}",
        worker_args(personal, region.images, front, models_bucket, served.endpoint),
        pulumi.ResourceOptions.merge(behind, pulumi.ResourceOptions(depends_on=identities)),
    )


WORKER: Final = "personal-worker"
"""Name of the worker's objects and service account."""
TRAINER: Final = "personal-trainer"
"""Service account of the training jobs."""


def identity_args(
    personal: PersonalPlan,
    project: ProjectPlan,
    users: pulumi.Input[str],
    weights: pulumi.Input[str],
) -> dict[str, WorkloadIdentityArgs]:
    """Return the arguments of the identities of worker and training jobs, by service account.

    Args:
        personal: The service and its worker.
        project: Project of the stack.
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
        account: identity_of(project, personal.namespace, account, roles)
        for account, roles in grants.items()
    }


def front_args(personal: PersonalPlan, region: RegionPlan) -> PersonalFrontArgs:
    """Return the arguments of the service."""
    settings, names, project = personal.settings, region.names, region.project
    args = PersonalFrontArgs(
        account_id=names.personal_account(),
        bucket_name=names.personal_bucket(region.name),
        callback_hosts=list(settings.callback_hosts),
        callers=list(settings.callers),
        force_destroy=not project.is_protected,
        image=replaced(image("personal").reference, region.images.replacements),
        labels=project.labels,
        max_images=settings.max_images,
        max_photos=settings.max_photos,
        max_open_sets=settings.max_open_sets,
        project=project.id,
        project_number=project.number,
        region=region.name,
        retention_days=settings.retention_days,
        service_name=names.personal(),
        worker=principal(
            project.id,
            project.number,
            personal.namespace,
            WORKER,
        ),
    )
    if settings.nearline_after_days is not None:
        args["nearline_after_days"] = settings.nearline_after_days
    if settings.coldline_after_days is not None:
        args["coldline_after_days"] = settings.coldline_after_days
    if settings.archive_after_days is not None:
        args["archive_after_days"] = settings.archive_after_days
    if region.settings.data_key is not None:
        args["kms_key"] = region.settings.data_key
    return args


def worker_args(
    personal: PersonalPlan,
    images: RegionImages,
    front: PersonalFront,
    models_bucket: pulumi.Input[str],
    endpoint: pulumi.Input[str],
) -> PersonalWorkerArgs:
    """Return the arguments of the worker."""
    settings, model = personal.settings, personal.model
    folder, version = split(model.weights)
    training = {
        "folder": folder if version is None else f"{folder}/{version}",
        "prompt": settings.prompt,
        "rank": settings.rank,
        "size": model.images.sizes[0] if model.images is not None else "1024x1024",
        "steps": settings.steps,
        "text_encoder_bits": TEXT_ENCODER_BITS,
        "text_tokens": model.context,
    }
    args = PersonalWorkerArgs(
        adapters=path_of(settings.model, model),
        bucket=front.bucket_name,
        callback_secret=settings.callback_secret,
        endpoint=endpoint,
        erasures_subscription=front.erasures_subscription,
        model=settings.model,
        models_bucket=models_bucket,
        namespace=personal.namespace,
        queue=settings.queue,
        retention_days=settings.retention_days,
        service_account=WORKER,
        sets_per_worker=settings.sets_per_worker,
        subscription=front.subscription,
        train_seconds=settings.train_seconds,
        trainer_account=TRAINER,
        trainer_image=replaced(image(TRAINER_IMAGE).reference, images.replacements),
        training={key: json.dumps(value) for key, value in training.items()},
        worker_name=WORKER,
    )
    if settings.key_secret is not None:
        args["key_secret"] = settings.key_secret
    return args
