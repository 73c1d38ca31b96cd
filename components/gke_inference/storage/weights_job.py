"""A job in the cluster that copies a model's weights into buckets, and optionally onto a disk."""

from typing import Annotated, Any, NotRequired, TypedDict

import pulumi
from pulumi_gcp import compute
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import name_of, under, user_labels
from gke_inference.base.manifests import register
from gke_inference.catalogue.versions import base_image
from gke_inference.cluster.workload_identity import (
    BucketAccessArgs,
    WorkloadIdentity,
    WorkloadIdentityArgs,
)

from .loader_pod import DISK, WORK, class_object, files_object, job_object
from .model_disk import ModelDisk, ModelDiskArgs
from .settings import DiskGib, DiskThroughput

_HOURS = 12
_HOUR_SECONDS = 3600


class WeightsDiskArgs(TypedDict):
    """A Hyperdisk ML volume to fill, and the snapshot to take of it."""

    disk_name: str
    """Name of the volume while it is being filled."""
    size_gib: DiskGib
    """Size in GiB."""
    snapshot_name: str
    """Name of the snapshot, for `snapshot` of a `ModelDisk`. It is kept when the job is removed."""
    zone: str
    """Zone of the volume and of the job's node."""
    throughput_mib_per_s: NotRequired[DiskThroughput]
    """Throughput in MiB/s while it is being filled. Default: 1200."""


class WeightsJobArgs(TypedDict):
    """Inputs of `WeightsJob`."""

    buckets: list[str]
    """Buckets to fill. The job writes to the first one and copies to the others within Cloud
    Storage."""
    folder: str
    """Folder of the model in each bucket."""
    job_name: str
    """Name of the job, its service account and its compute class."""
    namespace: str
    """Namespace of the job."""
    project: str
    """Project of the cluster."""
    project_number: str
    """Number of that project."""
    repository: str
    """Model on the Hugging Face Hub: ORGANIZATION/MODEL."""
    scratch_gib: Annotated[int, Field(ge=10, le=65_536)]
    """Size of the scratch volume in GiB, larger than the model."""
    disk: NotRequired[WeightsDiskArgs]
    """Disk to fill in addition. Default: none."""
    exclude: NotRequired[list[str]]
    """Patterns of files to skip. Default: none."""
    hours: NotRequired[Annotated[int, Field(ge=1, le=48)]]
    """Maximum run time of the job in hours. Default: 12."""
    image: NotRequired[str]
    """Container image. Default: the Python image in the versions lock, which needs `program`."""
    labels: NotRequired[dict[str, str]]
    """Additional labels for the disk and the snapshot."""
    makes_current: NotRequired[bool]
    """Whether to make the version current even if there is a current one. Default: false."""
    node_service_account: NotRequired[pulumi.Input[str]]
    """Service account of the job's node. Default: the project's default service account."""
    program: NotRequired[dict[str, str]]
    """Files of the program by path. If they include `requirements.lock`, its packages are installed
    first. Default: the image contains the package `gke-inference-workloads`."""
    revision: NotRequired[str]
    """Branch, tag or commit on the Hub. Default: `main`."""
    token_secret: NotRequired[str]
    """ID of the secret with the Hub token. Default: none."""
    version: NotRequired[str]
    """Name of the version. Default: derived from the content."""


class WeightsJob(pulumi.ComponentResource):
    """A job with its own identity, which may write to the buckets and read one secret.

    It is ready once the job has succeeded and the snapshot exists. You can then remove the
    component: the weights and snapshot are kept. Pass the cluster's Kubernetes provider in `opts`.
    """

    job_name: pulumi.Output[str]
    """Name of the job."""
    principal: pulumi.Output[str]
    """IAM member of the job."""
    snapshot: pulumi.Output[str | None]
    """Name of the snapshot, if a disk is filled."""

    def __init__(
        self, name: str, args: WeightsJobArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:WeightsJob", name, {}, opts)
        args = checked(WeightsJobArgs, args)
        job_name = name_of(args, "job_name", "namespace")
        namespace = name_of(args, "namespace", "namespace")
        hours = args.get("hours", _HOURS)
        scratch_gib = args["scratch_gib"]
        buckets, program = _buckets(args), _program(args)
        identity = WorkloadIdentity(
            f"{name}-identity", _identity_args(args, job_name, namespace, buckets), under(self)
        )
        disk_args = args.get("disk")
        disk = self._build_disk(name, args, disk_args, job_name, namespace)
        spec = _spec(args, buckets, has_disk=disk is not None)
        image = args.get("image") or base_image("python").reference
        zone = None if disk_args is None else disk_args["zone"]
        needed: list[pulumi.Resource] = [identity, *([] if disk is None else [disk])]
        account = args.get("node_service_account")
        for role, obj in {
            "class": class_object(job_name, zone, account),
            "files": files_object(job_name, namespace, program, spec),
        }.items():
            needed.append(register(f"{name}-{role}", obj, under(self)))
        made = job_object(
            job_name,
            namespace,
            image=image,
            program=program,
            spec=spec,
            scratch_gib=scratch_gib,
            deadline_seconds=hours * _HOUR_SECONDS,
            claim=None if disk is None else f"{job_name}-disk",
        )
        waits = pulumi.ResourceOptions.merge(
            under(self, depends_on=needed),
            pulumi.ResourceOptions(
                custom_timeouts=pulumi.CustomTimeouts(create=f"{hours}h"),
                delete_before_replace=True,
            ),
        )
        job = register(f"{name}-job", made, waits)
        self.snapshot = self._build_snapshot(name, args, job)
        self.principal = identity.principal
        self.job_name = pulumi.Output.from_input(job_name)
        self.register_outputs(
            {"jobName": self.job_name, "principal": self.principal, "snapshot": self.snapshot}
        )

    def _build_disk(
        self,
        name: str,
        args: WeightsJobArgs,
        disk: WeightsDiskArgs | None,
        job_name: str,
        namespace: str,
    ) -> ModelDisk | None:
        if disk is None:
            return None
        volume = ModelDiskArgs(
            claim_name=f"{job_name}-disk",
            disk_name=disk["disk_name"],
            filled=False,
            labels=args.get("labels") or {},
            namespace=namespace,
            project=args["project"],
            size_gib=disk["size_gib"],
            throughput_mib_per_s=disk.get("throughput_mib_per_s", 1200),
            zones=[disk["zone"]],
        )
        return ModelDisk(f"{name}-disk", volume, under(self))

    def _build_snapshot(
        self, name: str, args: WeightsJobArgs, job: pulumi.Resource
    ) -> pulumi.Output[str | None]:
        disk = args.get("disk")
        if disk is None:
            return pulumi.Output.from_input(None)
        snapshot = compute.Snapshot(
            f"{name}-snapshot",
            labels=user_labels(args, "storage"),
            name=name_of(disk, "snapshot_name", "compute"),
            project=args["project"],
            source_disk=f"projects/{args['project']}/zones/{disk['zone']}/disks/{disk['disk_name']}",
            zone=disk["zone"],
            opts=pulumi.ResourceOptions.merge(
                under(self, depends_on=[job]), pulumi.ResourceOptions(retain_on_delete=True)
            ),
        )
        return snapshot.name.apply(_as_optional)


def _as_optional(name: str) -> str | None:
    return name


def _buckets(args: WeightsJobArgs) -> list[str]:
    buckets = list(args["buckets"])
    if not buckets or len(set(buckets)) != len(buckets):
        raise pulumi.InputPropertyError("buckets", f"must be different buckets, got {buckets!r}")
    return buckets


def _program(args: WeightsJobArgs) -> dict[str, str]:
    program = dict(args.get("program") or {})
    if not program and args.get("image") is None:
        raise pulumi.InputPropertyError("program", "must be set without 'image', got none")
    return program


def _identity_args(
    args: WeightsJobArgs, job_name: str, namespace: str, buckets: list[str]
) -> WorkloadIdentityArgs:
    identity = WorkloadIdentityArgs(
        bucket_roles={
            bucket: BucketAccessArgs(access="write", bucket=bucket) for bucket in buckets
        },
        namespace=namespace,
        project=args["project"],
        project_number=args["project_number"],
        service_account_name=job_name,
    )
    if "token_secret" in args:
        identity["secrets"] = [args["token_secret"]]
    return identity


def _spec(args: WeightsJobArgs, buckets: list[str], *, has_disk: bool) -> dict[str, Any]:
    """Return the program's input, as `workloads/transfer/job.py` reads it."""
    return {
        "buckets": buckets,
        "exclude": list(args.get("exclude") or []),
        "folder": args["folder"],
        "makes_current": args.get("makes_current", False),
        "project": args["project"],
        "repository": args["repository"],
        "revision": args.get("revision", "main"),
        "target": DISK if has_disk else f"{WORK}/model",
        "token_secret": args.get("token_secret"),
        "version": args.get("version"),
    }
