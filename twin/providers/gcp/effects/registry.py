"""The effect of each resource type."""

from twin.providers.gcp.effects.address import AddressEffect
from twin.providers.gcp.effects.base import Effect
from twin.providers.gcp.effects.bucket import BucketEffect, BucketObjectEffect
from twin.providers.gcp.effects.cloud_run import RunServiceEffect
from twin.providers.gcp.effects.cluster import ClusterEffect
from twin.providers.gcp.effects.filestore import FilestoreEffect
from twin.providers.gcp.effects.lustre import LustreEffect, PeeringEffect
from twin.providers.gcp.effects.node_pool import NodePoolEffect
from twin.providers.gcp.effects.pubsub import MemberEffect, SubscriptionEffect, TopicEffect
from twin.providers.gcp.effects.resource_policy import ResourcePolicyEffect
from twin.providers.gcp.effects.secret_version import SecretEffect, SecretVersionEffect
from twin.providers.gcp.effects.service_connections import ConnectionEffect
from twin.providers.gcp.effects.tables import TableMemberEffect
from twin.providers.gcp.effects.valkey import PolicyEffect, ValkeyEffect

_NONE = Effect()
_EFFECTS: dict[str, Effect] = {
    "bigquery/datasetAccess": TableMemberEffect(),
    "bigquery/iamMember": TableMemberEffect(),
    "cloudrunv2/service": RunServiceEffect(),
    "compute/address": AddressEffect(),
    "compute/forwardingRule": ConnectionEffect(),
    "compute/globalAddress": AddressEffect(),
    "compute/regionNetworkEndpointGroup": ConnectionEffect(),
    "compute/resourcePolicy": ResourcePolicyEffect(),
    "compute/serviceAttachment": ConnectionEffect(),
    "container/cluster": ClusterEffect(),
    "container/nodePool": NodePoolEffect(),
    "filestore/instance": FilestoreEffect(),
    "lustre/instance": LustreEffect(),
    "memorystore/instance": ValkeyEffect(),
    "networkconnectivity/serviceConnectionPolicy": PolicyEffect(),
    "pubsub/subscription": SubscriptionEffect(),
    "pubsub/subscriptionIAMMember": MemberEffect(),
    "pubsub/topic": TopicEffect(),
    "pubsub/topicIAMMember": MemberEffect(),
    "secretmanager/secret": SecretEffect(),
    "secretmanager/secretVersion": SecretVersionEffect(),
    "servicenetworking/connection": PeeringEffect(),
    "storage/bucket": BucketEffect(),
    "storage/bucketObject": BucketObjectEffect(),
}


def effect_of(kind: str) -> Effect:
    """Return the effect of a resource type, such as `container/cluster`."""
    return _EFFECTS.get(kind, _NONE)
