"""What the Pulumi plugin offers to programs in other languages."""

import pulumi

from .accelerator_pool import AcceleratorPool
from .alerts import Alerts
from .autoscaling import Autoscaling
from .budget import Budget
from .cluster import InferenceCluster
from .compute_class import ComputeClass
from .dashboards import Dashboards
from .engine_repository import EngineRepository
from .fuse_volume import FuseVolume
from .group_operator import LeaderWorkerSetOperator
from .image_admission import ImageAdmission
from .image_attestor import ImageAttestor
from .image_build import ImageBuild
from .image_builder import ImageBuilder
from .inference_gateway import InferenceGateway
from .metrics_adapter import MetricsAdapter
from .model_bucket import ModelBucket
from .model_disk import ModelDisk
from .monitoring import Monitoring
from .network import Network
from .node_image_cache import NodeImageCache
from .serving_namespace import ServingNamespace
from .workload_identity import WorkloadIdentity

NAME = "gke-inference"
VERSION = "0.1.0"
COMPONENTS: tuple[type[pulumi.ComponentResource], ...] = (
    AcceleratorPool,
    Alerts,
    Autoscaling,
    Budget,
    ComputeClass,
    Dashboards,
    EngineRepository,
    FuseVolume,
    ImageAdmission,
    ImageAttestor,
    ImageBuild,
    ImageBuilder,
    InferenceCluster,
    InferenceGateway,
    LeaderWorkerSetOperator,
    MetricsAdapter,
    ModelBucket,
    ModelDisk,
    Monitoring,
    Network,
    NodeImageCache,
    ServingNamespace,
    WorkloadIdentity,
)
