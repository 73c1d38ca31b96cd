"""The shared folder of a region, on Filestore or Lustre, and its mounted bucket of weights."""

from typing import NotRequired, TypedDict

import pulumi

from gke_inference.storage.fuse_volume import FuseVolumeArgs
from gke_inference.storage.lustre_folder import LustreFolder, LustreFolderArgs
from gke_inference.storage.settings import MountProfile
from gke_inference.storage.shared_folder import SharedFolder, SharedFolderArgs
from infra.deploy.network import RegionNetwork
from infra.plan import RegionPlan
from infra.plan.storage import BUCKET_CLAIM, CLAIM


def build_folders(
    region: RegionPlan,
    network: RegionNetwork,
    opts: pulumi.ResourceOptions,
) -> list[pulumi.Resource]:
    """Build the shared folder of the region, on Filestore or Lustre, if it has one."""
    folders: list[pulumi.Resource] = []
    filestore = shared_folder_args(region, network.network)
    if filestore is not None:
        folders.append(SharedFolder(f"{region.name}-shared-folder", filestore, opts))
    lustre = lustre_folder_args(region, network.network)
    if lustre is not None:
        folders.append(LustreFolder(f"{region.name}-lustre-folder", lustre, opts))
    return folders


def shared_folder_args(region: RegionPlan, network: pulumi.Input[str]) -> SharedFolderArgs | None:
    """Return the arguments of a region's Filestore share, if it has one."""
    filestore = region.storage.filestore
    if filestore is None:
        return None
    return SharedFolderArgs(
        **_folder(region, network),
        capacity_gib=filestore.capacity_gib,
        deletion_protection=region.project.is_protected,
        instance_name=region.names.filestore(region.name),
        location=region.storage.folder_location,
        tier=filestore.tier,
    )


def lustre_folder_args(region: RegionPlan, network: pulumi.Input[str]) -> LustreFolderArgs | None:
    """Return the arguments of a region's Lustre instance, if it has one."""
    lustre = region.storage.lustre
    if lustre is None:
        return None
    return LustreFolderArgs(
        **_folder(region, network),
        capacity_gib=lustre.capacity_gib,
        instance_name=region.names.lustre(region.name),
        location=region.storage.folder_location,
        mb_per_second_per_tib=lustre.mb_per_second_per_tib,
    )


def weights_volume_args(region: RegionPlan, bucket: pulumi.Input[str]) -> FuseVolumeArgs | None:
    """Return the arguments of the volume of a region's model bucket, if GKE tunes its mounts."""
    profile = region.storage.fuse_profile
    if profile is None:
        return None
    return FuseVolumeArgs(
        bucket_name=bucket,
        claim_name=BUCKET_CLAIM,
        namespace=region.namespace,
        profile=MountProfile(profile.value),
        project_number=region.project.number,
    )


class _FolderArgs(TypedDict):
    """Arguments of a folder on Filestore and on Lustre."""

    claim_name: str
    labels: dict[str, str]
    namespace: str
    network: pulumi.Input[str]
    project: str
    kms_key: NotRequired[pulumi.Input[str]]
    more_namespaces: NotRequired[list[str]]


def _folder(region: RegionPlan, network: pulumi.Input[str]) -> _FolderArgs:
    """Return what folders of both kinds have, with claims for teams and the region's key."""
    args = _FolderArgs(
        claim_name=CLAIM,
        labels=region.project.labels,
        namespace=region.namespace,
        network=network,
        project=region.project.id,
    )
    if teams := _namespaces(region):
        args["more_namespaces"] = teams
    key = region.settings.data_key
    if key is not None:
        args["kms_key"] = key
    return args


def _namespaces(region: RegionPlan) -> list[str]:
    """Return the namespaces of the teams whose jobs have the folder, each once."""
    teams = {
        namespace: None
        for queue in region.queues
        for team, namespace in queue.namespaces.items()
        if queue.settings.teams[team].shared_folder
    }
    return list(teams)
