"""What exists and is named instead of made: a stack neither changes nor deletes it."""

from infra.stack.base.fields import (
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
    """What the whole platform shares."""

    namespace: Namespace | None = None
    """Namespace of the models in every cluster, where every region names `existing.cluster`. Other
    pods in it keep their network access."""
    network: NetworkPath | None = None
    """VPC, as projects/PROJECT/global/networks/NAME: of this project, or of the host project of a
    Shared VPC. Every region must name its subnet in `existing.subnet`."""


class ExistingSubnet(StackModel):
    """A subnet of the existing network."""

    name: SubnetPath
    """Subnet of the nodes, as projects/PROJECT/regions/REGION/subnetworks/NAME."""
    proxies: Cidr
    """Range of the region's proxy-only subnet (REGIONAL_MANAGED_PROXY) in the same network."""
    published: Name | None = None
    """Name of the region's subnet for Private Service Connect (PRIVATE_SERVICE_CONNECT) in the same
    network, where `gateway.front` is global or `gateway.publish` is set; left out elsewhere."""
    pods: RangeName | None = None
    """Secondary range of the pods, by its name; left out where the cluster exists."""
    services: RangeName | None = None
    """Secondary range of the services, by its name; left out where the cluster exists."""


class ExistingInRegion(StackModel):
    """What one region has."""

    bucket: BucketName | None = None
    """Bucket of the weights, for the region alone; `gs://BUCKET/PATH` as a model's `weights` names
    one that regions share. Adapters and paths without a bucket are read from it."""
    cluster: ClusterPath | None = None
    """Cluster of the platform's project, as projects/PROJECT/locations/LOCATION/clusters/NAME. It
    takes `existing.network`, `existing.subnet` and its GKE in `version`."""
    repository: RepositoryPath | None = None
    """Artifact Registry repository of the region or its continent, as
    projects/PROJECT/locations/LOCATION/repositories/NAME; `images` says what is taken from it."""
    subnet: ExistingSubnet | None = None
    """Subnet of the nodes, where `existing.network` is named; instead of `ranges`."""
