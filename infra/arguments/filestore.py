"""The translator of Filestore: its instance and claim in a region."""

import pulumi

from gke_inference.storage.shared_folder import SharedFolderArgs
from infra.plan import RegionPlan
from infra.plan.filestore import CLAIM, filestore_of, location_of
from infra.plan.names import Names
from infra.stack import Platform


def shared_folder_args(
    platform: Platform, region: RegionPlan, network: pulumi.Input[str]
) -> SharedFolderArgs | None:
    """Return the arguments of a region's folder on Filestore, where it has one."""
    filestore = filestore_of(platform, region.name)
    if filestore is None:
        return None
    args = SharedFolderArgs(
        capacity_gib=filestore.capacity_gib,
        claim_name=CLAIM,
        deletion_protection=platform.protection,
        instance_name=Names(platform).filestore(region.name),
        labels={"env": platform.environment},
        location=location_of(platform, region.name, filestore),
        namespace=region.namespace,
        network=network,
        project=platform.project,
        tier=filestore.tier.value,
    )
    key = platform.regions[region.name].data_key
    if key is not None:
        args["kms_key"] = key
    return args
