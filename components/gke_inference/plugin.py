"""Entry point of the Pulumi plugin, for programs in other languages."""

import pulumi
from pulumi.provider.experimental import component

from .analyzer import SettingsAnalyzer
from .backends.backend_access import BackendAccess
from .backends.model_backends import ModelBackends
from .backends.pool_fallback import PoolFallback
from .batches.batch_bucket import BatchBucket
from .batches.batch_service import BatchService
from .capacity.accelerator_pool import AcceleratorPool
from .capacity.calendar_reservation import CalendarReservation
from .capacity.compact_placement import CompactPlacement
from .capacity.compute_class import ComputeClass
from .capacity.node_image_cache import NodeImageCache
from .clients.apigee_apps import ApigeeApps
from .clients.apigee_gate import ApigeeGate
from .clients.client_gate import ClientGate
from .clients.client_keys import ClientKeys
from .clients.counter_store import CounterStore
from .cluster.accelerator_networks import AcceleratorNetworks
from .cluster.cluster import InferenceCluster
from .cluster.existing_cluster import ExistingCluster
from .cluster.network import Network
from .cluster.private_services import PrivateServices
from .cluster.workload_identity import WorkloadIdentity
from .delivery.config_sync import ConfigSync
from .delivery.model_delivery import ModelDelivery
from .front.dns_front import DnsFront
from .front.exported_pools import ExportedPools
from .front.fleet import Fleet
from .front.fleet_gateway import FleetGateway
from .front.front_network import FrontNetwork
from .front.front_router import FrontRouter
from .front.global_front import GlobalFront
from .front.published_gateway import PublishedGateway
from .gateway.certificate import GatewayCertificate
from .gateway.inference_gateway import InferenceGateway
from .gateway.model_routes import ModelRoutes
from .gateway.record import GatewayRecord
from .guardrails.model_armor import ModelArmor
from .guardrails.model_armor_gate import ModelArmorGate
from .guardrails.model_armor_project import ModelArmorProject
from .guardrails.nemo_guardrails import NemoGuardrails
from .images.admission import ImageAdmission
from .images.attestor import ImageAttestor
from .images.build import ImageBuild
from .images.builder import ImageBuilder
from .images.pull_through import PullThrough
from .images.repository import EngineRepository
from .images.sources import ImageSources
from .namespace.connected_models import ConnectedModels
from .namespace.serving_namespace import ServingNamespace
from .namespace.team_share import TeamShare
from .observability.alerts import Alerts
from .observability.budget import Budget
from .observability.dashboards import Dashboards
from .observability.monitoring import Monitoring
from .operators.accelerator_interfaces import AcceleratorInterfaces
from .operators.cluster_kinds import ClusterKinds
from .operators.device_drivers import DeviceDrivers
from .operators.group_operator import LeaderWorkerSetOperator
from .operators.job_sets.job_set_operator import JobSetOperator
from .operators.metrics_adapter import MetricsAdapter
from .operators.queue_operator import QueueOperator
from .optimization.optimization_job import OptimizationJob
from .personal.personal_front import PersonalFront
from .personal.personal_worker import PersonalWorker
from .pipelines.dataflow_pipeline import DataflowPipeline
from .queues.job_namespace import JobNamespace
from .queues.job_queue import JobQueue
from .serving.autoscaling import Autoscaling
from .serving.cloud_run.cloud_run_model import CloudRunModel
from .serving.model_server import ModelServer
from .serving.offline.batch_engine import BatchEngine
from .serving.ray.scaler import RayScaler
from .serving.weights_gate import WeightsGate
from .storage.archive_bucket import ArchiveBucket
from .storage.fuse_volume import FuseVolume
from .storage.lustre_folder import LustreFolder
from .storage.model_bucket import ModelBucket
from .storage.model_disk import ModelDisk
from .storage.shared_folder import SharedFolder
from .storage.weights_job import WeightsJob
from .streams.stream_table import StreamTable
from .streams.stream_topics import StreamTopics
from .streams.stream_worker import StreamWorker

setattr(component, "Analyzer", SettingsAnalyzer)  # noqa: B010 - a provider makes its own

NAME = "gke-inference"
VERSION = "0.1.0"
COMPONENTS: tuple[type[pulumi.ComponentResource], ...] = (
    AcceleratorInterfaces,
    AcceleratorNetworks,
    AcceleratorPool,
    Alerts,
    ApigeeApps,
    ApigeeGate,
    ArchiveBucket,
    Autoscaling,
    BackendAccess,
    BatchBucket,
    BatchEngine,
    BatchService,
    Budget,
    ClientGate,
    ClientKeys,
    CloudRunModel,
    ClusterKinds,
    CalendarReservation,
    CompactPlacement,
    ComputeClass,
    ConfigSync,
    ConnectedModels,
    CounterStore,
    Dashboards,
    DataflowPipeline,
    DeviceDrivers,
    DnsFront,
    EngineRepository,
    ExistingCluster,
    ExportedPools,
    Fleet,
    FleetGateway,
    FrontNetwork,
    FrontRouter,
    FuseVolume,
    GatewayCertificate,
    GatewayRecord,
    GlobalFront,
    ImageAdmission,
    ImageAttestor,
    ImageBuild,
    ImageBuilder,
    ImageSources,
    InferenceCluster,
    InferenceGateway,
    JobNamespace,
    JobQueue,
    JobSetOperator,
    LeaderWorkerSetOperator,
    LustreFolder,
    MetricsAdapter,
    ModelArmor,
    ModelArmorGate,
    ModelArmorProject,
    ModelBackends,
    ModelBucket,
    ModelDelivery,
    ModelDisk,
    ModelRoutes,
    ModelServer,
    Monitoring,
    NemoGuardrails,
    Network,
    NodeImageCache,
    OptimizationJob,
    PersonalFront,
    PersonalWorker,
    PoolFallback,
    PrivateServices,
    PublishedGateway,
    PullThrough,
    QueueOperator,
    RayScaler,
    ServingNamespace,
    SharedFolder,
    StreamTable,
    StreamTopics,
    StreamWorker,
    TeamShare,
    WeightsGate,
    WeightsJob,
    WorkloadIdentity,
)
