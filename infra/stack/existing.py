"""Existing resources that a stack uses but neither changes nor deletes."""

from infra.stack.fields import (
    BucketName,
    Cidr,
    ClusterPath,
    Name,
    Namespace,
    NetworkPath,
    RangeName,
    RepositoryPath,
    StackModel,
    SubnetPath,
)


class Existing(StackModel):
    """Existing resources that the whole platform shares."""

    namespace: Namespace | None = None
    """Namespace of the models in every cluster, where every region sets `existing.cluster`. Network
    access of other pods in it is not restricted."""
    network: NetworkPath | None = None
    """VPC network, as projects/PROJECT/global/networks/NAME, in this project or in the host project
    of a Shared VPC. Every region must set `existing.subnet`."""


class ExistingSubnet(StackModel):
    """A subnet of the existing network."""

    name: SubnetPath
    """Subnet of the nodes, as projects/PROJECT/regions/REGION/subnetworks/NAME."""
    proxies: Cidr
    """Range of the region's proxy-only subnet (REGIONAL_MANAGED_PROXY) in the same network."""
    published: Name | None = None
    """Name of the region's Private Service Connect subnet (PRIVATE_SERVICE_CONNECT) in the same
    network. Required where `gateway.front` is `global` or `gateway.publish` is set; otherwise, omit
    it."""
    pods: RangeName | None = None
    """Name of the secondary range for pods. Omit it if the cluster exists."""
    services: RangeName | None = None
    """Name of the secondary range for services. Omit it if the cluster exists."""


class ExistingInRegion(StackModel):
    """Existing resources of one region."""

    bucket: BucketName | None = None
    """Bucket for the weights of this region. Adapters, and paths without a bucket, are read from
    it. For a bucket that regions share, use `gs://BUCKET/PATH` in `weights` of a model."""
    cluster: ClusterPath | None = None
    """Cluster in the platform's project, as projects/PROJECT/locations/LOCATION/clusters/NAME.
    Requires `existing.network`, `existing.subnet`, and its GKE version in `version`."""
    repository: RepositoryPath | None = None
    """Artifact Registry repository in the region or its continent, as
    projects/PROJECT/locations/LOCATION/repositories/NAME. `images` lists what is pulled from it."""
    subnet: ExistingSubnet | None = None
    """Subnet of the nodes, in `existing.network`. Replaces `ranges`."""
