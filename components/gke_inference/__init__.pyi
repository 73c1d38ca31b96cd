"""Public names of the package, which are loaded on first use."""

from .backends.backend_access import (
    BackendAccess as BackendAccess,
)
from .backends.backend_access import (
    BackendAccessArgs as BackendAccessArgs,
)
from .backends.model_backends import (
    ModelBackends as ModelBackends,
)
from .backends.model_backends import (
    ModelBackendsArgs as ModelBackendsArgs,
)
from .backends.pool_fallback import (
    PoolFallback as PoolFallback,
)
from .backends.pool_fallback import (
    PoolFallbackArgs as PoolFallbackArgs,
)
from .backends.relay import (
    RelayCallersArgs as RelayCallersArgs,
)
from .backends.settings import BackendKind as BackendKind
from .backends.settings import (
    BackendSettings as BackendSettings,
)
from .backends.settings import (
    TargetSettings as TargetSettings,
)
from .batches.batch_bucket import BatchBucket as BatchBucket
from .batches.batch_bucket import BatchBucketArgs as BatchBucketArgs
from .batches.batch_service import BatchService as BatchService
from .batches.program import (
    BatchCallersArgs as BatchCallersArgs,
)
from .batches.program import (
    BatchModelArgs as BatchModelArgs,
)
from .batches.program import (
    BatchServiceArgs as BatchServiceArgs,
)
from .capacity.accelerator_pool import AcceleratorPool as AcceleratorPool
from .capacity.compact_placement import (
    CompactPlacement as CompactPlacement,
)
from .capacity.compact_placement import (
    CompactPlacementArgs as CompactPlacementArgs,
)
from .capacity.compute_class import (
    ComputeClass as ComputeClass,
)
from .capacity.compute_class import (
    ComputeClassArgs as ComputeClassArgs,
)
from .capacity.node_image_cache import (
    NodeImageCache as NodeImageCache,
)
from .capacity.node_image_cache import (
    NodeImageCacheArgs as NodeImageCacheArgs,
)
from .capacity.pool_settings import (
    AcceleratorPoolArgs as AcceleratorPoolArgs,
)
from .capacity.pool_settings import (
    AdditionalNetworkArgs as AdditionalNetworkArgs,
)
from .capacity.settings import GpuDriver as GpuDriver
from .capacity.settings import Unsatisfiable as Unsatisfiable
from .catalogue.accelerators import Provisioning as Provisioning
from .catalogue.input_error import InputError as InputError
from .catalogue.node_networks import NodeNetwork as NodeNetwork
from .catalogue.node_placement import NodePlacement as NodePlacement
from .catalogue.rung_settings import RungArgs as RungArgs
from .catalogue.rungs import Rung as Rung
from .catalogue.rungs import check_rung as check_rung
from .clients.apigee_gate import (
    ApigeeGate as ApigeeGate,
)
from .clients.apigee_gate import (
    ApigeeGateArgs as ApigeeGateArgs,
)
from .clients.certificates import ClientCertificatesArgs as ClientCertificatesArgs
from .clients.client_gate import ClientGate as ClientGate
from .clients.client_keys import ClientKeys as ClientKeys
from .clients.client_keys import ClientKeysArgs as ClientKeysArgs
from .clients.counter_store import (
    AnswerStore as AnswerStore,
)
from .clients.counter_store import (
    CounterStore as CounterStore,
)
from .clients.counter_store import (
    CounterStoreArgs as CounterStoreArgs,
)
from .clients.gate_inputs import (
    AnswerCacheArgs as AnswerCacheArgs,
)
from .clients.gate_inputs import (
    ClientGateArgs as ClientGateArgs,
)
from .clients.gate_inputs import (
    ClientGuardArgs as ClientGuardArgs,
)
from .clients.gate_inputs import (
    ClientModelArgs as ClientModelArgs,
)
from .clients.people import ClientPeopleArgs as ClientPeopleArgs
from .clients.settings import (
    ApigeeProduct as ApigeeProduct,
)
from .clients.settings import Priority as Priority
from .clients.settings import StoreNodes as StoreNodes
from .clients.settings import (
    TeamSettings as TeamSettings,
)
from .clients.settings import TimeUnit as TimeUnit
from .clients.settings import (
    TokenIssuer as TokenIssuer,
)
from .clients.settings import (
    TokenPrice as TokenPrice,
)
from .cluster.accelerator_networks import (
    AcceleratorNetworks as AcceleratorNetworks,
)
from .cluster.accelerator_networks import (
    AcceleratorNetworksArgs as AcceleratorNetworksArgs,
)
from .cluster.cluster import InferenceCluster as InferenceCluster
from .cluster.cluster_settings import (
    InferenceClusterArgs as InferenceClusterArgs,
)
from .cluster.existing_cluster import (
    ExistingCluster as ExistingCluster,
)
from .cluster.existing_cluster import (
    ExistingClusterArgs as ExistingClusterArgs,
)
from .cluster.network import (
    Network as Network,
)
from .cluster.network import (
    NetworkArgs as NetworkArgs,
)
from .cluster.network import ProxyScope as ProxyScope
from .cluster.private_services import (
    PrivateServices as PrivateServices,
)
from .cluster.private_services import (
    PrivateServicesArgs as PrivateServicesArgs,
)
from .cluster.settings import ClusterMode as ClusterMode
from .cluster.settings import Day as Day
from .cluster.settings import (
    Maintenance as Maintenance,
)
from .cluster.settings import (
    RegionRanges as RegionRanges,
)
from .cluster.settings import ReleaseChannel as ReleaseChannel
from .cluster.settings import (
    SystemPoolSettings as SystemPoolSettings,
)
from .cluster.workload_identity import (
    BucketAccessArgs as BucketAccessArgs,
)
from .cluster.workload_identity import (
    WorkloadIdentity as WorkloadIdentity,
)
from .cluster.workload_identity import (
    WorkloadIdentityArgs as WorkloadIdentityArgs,
)
from .delivery.config_sync import (
    ConfigSync as ConfigSync,
)
from .delivery.config_sync import (
    ConfigSyncArgs as ConfigSyncArgs,
)
from .delivery.config_sync import (
    SyncedClusterArgs as SyncedClusterArgs,
)
from .delivery.model_delivery import (
    ModelDelivery as ModelDelivery,
)
from .delivery.model_delivery import (
    ModelDeliveryArgs as ModelDeliveryArgs,
)
from .delivery.settings import DeliverySourceKind as DeliverySourceKind
from .delivery.settings import DeliveryTool as DeliveryTool
from .front.dns_front import DnsFront as DnsFront
from .front.dns_front import DnsFrontArgs as DnsFrontArgs
from .front.exported_pools import (
    ExportedPools as ExportedPools,
)
from .front.exported_pools import (
    ExportedPoolsArgs as ExportedPoolsArgs,
)
from .front.fleet import (
    Fleet as Fleet,
)
from .front.fleet import (
    FleetArgs as FleetArgs,
)
from .front.fleet import (
    FleetClusterArgs as FleetClusterArgs,
)
from .front.fleet_gateway import FleetGateway as FleetGateway
from .front.fleet_gateway import FleetGatewayArgs as FleetGatewayArgs
from .front.front_network import (
    FrontNetwork as FrontNetwork,
)
from .front.front_network import (
    FrontNetworkArgs as FrontNetworkArgs,
)
from .front.global_front import (
    FrontRegionArgs as FrontRegionArgs,
)
from .front.global_front import (
    GlobalFront as GlobalFront,
)
from .front.global_front import (
    GlobalFrontArgs as GlobalFrontArgs,
)
from .front.people import FrontPeopleArgs as FrontPeopleArgs
from .front.published_gateway import (
    PublishedGateway as PublishedGateway,
)
from .front.published_gateway import (
    PublishedGatewayArgs as PublishedGatewayArgs,
)
from .gateway.certificate import (
    GatewayCertificate as GatewayCertificate,
)
from .gateway.certificate import (
    GatewayCertificateArgs as GatewayCertificateArgs,
)
from .gateway.inference_gateway import (
    InferenceGateway as InferenceGateway,
)
from .gateway.inference_gateway import (
    InferenceGatewayArgs as InferenceGatewayArgs,
)
from .gateway.inference_gateway import (
    RoutedCanaryArgs as RoutedCanaryArgs,
)
from .gateway.inference_gateway import (
    RoutedModelArgs as RoutedModelArgs,
)
from .gateway.inference_gateway import (
    RouteSourceArgs as RouteSourceArgs,
)
from .gateway.model_routes import ModelRoutes as ModelRoutes
from .gateway.model_routes import ModelRoutesArgs as ModelRoutesArgs
from .gateway.record import GatewayRecord as GatewayRecord
from .gateway.record import GatewayRecordArgs as GatewayRecordArgs
from .gateway.settings import Exposure as Exposure
from .gateway.settings import PickerFailure as PickerFailure
from .guardrails.model_armor import (
    ModelArmor as ModelArmor,
)
from .guardrails.model_armor import (
    ModelArmorArgs as ModelArmorArgs,
)
from .guardrails.model_armor_gate import (
    ModelArmorGate as ModelArmorGate,
)
from .guardrails.model_armor_gate import (
    ModelArmorGateArgs as ModelArmorGateArgs,
)
from .guardrails.model_armor_project import (
    ModelArmorProject as ModelArmorProject,
)
from .guardrails.model_armor_project import (
    ModelArmorProjectArgs as ModelArmorProjectArgs,
)
from .guardrails.nemo_guardrails import (
    NemoGuardrails as NemoGuardrails,
)
from .guardrails.nemo_guardrails import (
    NemoGuardrailsArgs as NemoGuardrailsArgs,
)
from .guardrails.settings import ArmorCallArgs as ArmorCallArgs
from .guardrails.settings import (
    ArmorFilters as ArmorFilters,
)
from .guardrails.settings import Confidence as Confidence
from .guardrails.settings import Enforcement as Enforcement
from .guardrails.settings import Failure as Failure
from .guardrails.settings import Phase as Phase
from .images.admission import (
    ImageAdmission as ImageAdmission,
)
from .images.admission import (
    ImageAdmissionArgs as ImageAdmissionArgs,
)
from .images.attestor import ImageAttestor as ImageAttestor
from .images.attestor import ImageAttestorArgs as ImageAttestorArgs
from .images.build import ImageBuild as ImageBuild
from .images.build import ImageBuildArgs as ImageBuildArgs
from .images.builder import ImageBuilder as ImageBuilder
from .images.builder import ImageBuilderArgs as ImageBuilderArgs
from .images.pull_through import (
    PullThrough as PullThrough,
)
from .images.pull_through import (
    PullThroughArgs as PullThroughArgs,
)
from .images.repository import (
    EngineRepository as EngineRepository,
)
from .images.repository import (
    EngineRepositoryArgs as EngineRepositoryArgs,
)
from .images.settings import (
    UpstreamCredentials as UpstreamCredentials,
)
from .images.settings import VulnerabilitySeverity as VulnerabilitySeverity
from .images.sources import ImageSources as ImageSources
from .images.sources import ImageSourcesArgs as ImageSourcesArgs
from .intent.adapter_settings import AdapterFolder as AdapterFolder
from .intent.diffusion_settings import FurtherModel as FurtherModel
from .intent.diffusion_settings import ImageGeneration as ImageGeneration
from .intent.diffusion_settings import Videos as Videos
from .intent.expert_settings import AllToAll as AllToAll
from .intent.expert_settings import AllToAllByRole as AllToAllByRole
from .intent.expert_settings import Experts as Experts
from .intent.intent import (
    ModelServerArgs as ModelServerArgs,
)
from .intent.settings import EngineSettings as EngineSettings
from .intent.settings import KvOffload as KvOffload
from .intent.settings import Multimodal as Multimodal
from .intent.settings import SharedTier as SharedTier
from .intent.settings import Speculative as Speculative
from .intent.words import Form as Form
from .intent.words import Role as Role
from .intent.words import Spanning as Spanning
from .intent.words import Task as Task
from .namespace.connected_models import (
    ConnectedModels as ConnectedModels,
)
from .namespace.connected_models import (
    ConnectedModelsArgs as ConnectedModelsArgs,
)
from .namespace.network_policies import AllowedIngressArgs as AllowedIngressArgs
from .namespace.serving_namespace import (
    ServingNamespace as ServingNamespace,
)
from .namespace.serving_namespace import (
    ServingNamespaceArgs as ServingNamespaceArgs,
)
from .namespace.team_share import TeamShare as TeamShare
from .namespace.team_share import TeamShareArgs as TeamShareArgs
from .observability.alerts import (
    Alerts as Alerts,
)
from .observability.alerts import (
    AlertsArgs as AlertsArgs,
)
from .observability.alerts import (
    ReceiverArgs as ReceiverArgs,
)
from .observability.budget import Budget as Budget
from .observability.budget import BudgetArgs as BudgetArgs
from .observability.dashboards import (
    Dashboards as Dashboards,
)
from .observability.dashboards import (
    DashboardsArgs as DashboardsArgs,
)
from .observability.dashboards import (
    ObservedModelArgs as ObservedModelArgs,
)
from .observability.monitoring import Monitoring as Monitoring
from .observability.monitoring import MonitoringArgs as MonitoringArgs
from .observability.settings import ReceiverKind as ReceiverKind
from .observability.settings import Severity as Severity
from .operators.accelerator_interfaces import (
    AcceleratorInterfaces as AcceleratorInterfaces,
)
from .operators.accelerator_interfaces import (
    AcceleratorInterfacesArgs as AcceleratorInterfacesArgs,
)
from .operators.cluster_kinds import (
    ClusterKinds as ClusterKinds,
)
from .operators.cluster_kinds import (
    ClusterKindsArgs as ClusterKindsArgs,
)
from .operators.device_drivers import (
    DeviceDrivers as DeviceDrivers,
)
from .operators.device_drivers import (
    DeviceDriversArgs as DeviceDriversArgs,
)
from .operators.group_operator import (
    LeaderWorkerSetOperator as LeaderWorkerSetOperator,
)
from .operators.group_operator import (
    LeaderWorkerSetOperatorArgs as LeaderWorkerSetOperatorArgs,
)
from .operators.job_sets.job_set_operator import (
    JobSetOperator as JobSetOperator,
)
from .operators.job_sets.job_set_operator import (
    JobSetOperatorArgs as JobSetOperatorArgs,
)
from .operators.metrics_adapter import (
    MetricsAdapter as MetricsAdapter,
)
from .operators.metrics_adapter import (
    MetricsAdapterArgs as MetricsAdapterArgs,
)
from .operators.queue_operator import (
    QueueOperator as QueueOperator,
)
from .operators.queue_operator import (
    QueueOperatorArgs as QueueOperatorArgs,
)
from .personal.personal_front import (
    PersonalFront as PersonalFront,
)
from .personal.personal_front import (
    PersonalFrontArgs as PersonalFrontArgs,
)
from .personal.personal_worker import (
    PersonalWorker as PersonalWorker,
)
from .personal.personal_worker import (
    PersonalWorkerArgs as PersonalWorkerArgs,
)
from .queues.job_namespace import JobNamespace as JobNamespace
from .queues.job_namespace import JobNamespaceArgs as JobNamespaceArgs
from .queues.job_queue import (
    JobQueue as JobQueue,
)
from .queues.job_queue import (
    JobQueueArgs as JobQueueArgs,
)
from .queues.job_queue import (
    QueueFlavorArgs as QueueFlavorArgs,
)
from .queues.job_queue import (
    QueueTeamArgs as QueueTeamArgs,
)
from .serving.autoscaling import Autoscaling as Autoscaling
from .serving.autoscaling import AutoscalingArgs as AutoscalingArgs
from .serving.model_server import ModelServer as ModelServer
from .serving.offline.batch_engine import BatchEngine as BatchEngine
from .serving.offline.batch_engine import BatchEngineArgs as BatchEngineArgs
from .serving.ray.scaler import RayScaler as RayScaler
from .serving.ray.scaler import RayScalerArgs as RayScalerArgs
from .serving.settings import ScalingTargets as ScalingTargets
from .serving.weights_gate import WeightsGate as WeightsGate
from .serving.weights_gate import WeightsGateArgs as WeightsGateArgs
from .settings.fields import BootDisk as BootDisk
from .settings.size import Size as Size
from .storage.archive_bucket import (
    ArchiveBucket as ArchiveBucket,
)
from .storage.archive_bucket import (
    ArchiveBucketArgs as ArchiveBucketArgs,
)
from .storage.fuse_volume import FuseVolume as FuseVolume
from .storage.fuse_volume import FuseVolumeArgs as FuseVolumeArgs
from .storage.lustre_folder import (
    LustreFolder as LustreFolder,
)
from .storage.lustre_folder import (
    LustreFolderArgs as LustreFolderArgs,
)
from .storage.model_bucket import ModelBucket as ModelBucket
from .storage.model_bucket import ModelBucketArgs as ModelBucketArgs
from .storage.model_disk import ModelDisk as ModelDisk
from .storage.model_disk import ModelDiskArgs as ModelDiskArgs
from .storage.settings import (
    ArchiveSettings as ArchiveSettings,
)
from .storage.settings import FilestoreTier as FilestoreTier
from .storage.settings import MountProfile as MountProfile
from .storage.shared_folder import (
    SharedFolder as SharedFolder,
)
from .storage.shared_folder import (
    SharedFolderArgs as SharedFolderArgs,
)
from .storage.weights_job import (
    WeightsDiskArgs as WeightsDiskArgs,
)
from .storage.weights_job import (
    WeightsJob as WeightsJob,
)
from .storage.weights_job import (
    WeightsJobArgs as WeightsJobArgs,
)
from .streams.settings import ResultsKind as ResultsKind
from .streams.settings import ResultsSettings as ResultsSettings
from .streams.stream_table import (
    StreamTable as StreamTable,
)
from .streams.stream_table import (
    StreamTableArgs as StreamTableArgs,
)
from .streams.stream_topics import (
    StreamTopics as StreamTopics,
)
from .streams.stream_topics import (
    StreamTopicsArgs as StreamTopicsArgs,
)
from .streams.stream_worker import (
    StreamWorker as StreamWorker,
)
from .streams.stream_worker import (
    StreamWorkerArgs as StreamWorkerArgs,
)

__all__: list[str]
