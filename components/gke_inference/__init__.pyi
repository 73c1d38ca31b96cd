"""Public names of the package, which are loaded on first use."""

from .backends.backend_access import (
    BackendAccess as BackendAccess,
    BackendAccessArgs as BackendAccessArgs,
)
from .backends.model_backends import (
    ModelBackends as ModelBackends,
    ModelBackendsArgs as ModelBackendsArgs,
)
from .backends.pool_fallback import (
    PoolFallback as PoolFallback,
    PoolFallbackArgs as PoolFallbackArgs,
)
from .backends.settings import (
    BackendArgs as BackendArgs,
    BackendTargetArgs as BackendTargetArgs,
    RelayCallersArgs as RelayCallersArgs,
)
from .batches.batch_bucket import BatchBucket as BatchBucket, BatchBucketArgs as BatchBucketArgs
from .batches.batch_service import BatchService as BatchService
from .batches.settings import (
    BatchCallersArgs as BatchCallersArgs,
    BatchModelArgs as BatchModelArgs,
    BatchServiceArgs as BatchServiceArgs,
)
from .capacity.accelerator_pool import AcceleratorPool as AcceleratorPool
from .capacity.compact_placement import (
    CompactPlacement as CompactPlacement,
    CompactPlacementArgs as CompactPlacementArgs,
)
from .capacity.compute_class import (
    ComputeClass as ComputeClass,
    ComputeClassArgs as ComputeClassArgs,
)
from .capacity.node_image_cache import (
    NodeImageCache as NodeImageCache,
    NodeImageCacheArgs as NodeImageCacheArgs,
)
from .capacity.pool_settings import AcceleratorPoolArgs as AcceleratorPoolArgs
from .catalogue.input_error import InputError as InputError
from .catalogue.rungs import Rung as Rung, RungArgs as RungArgs, check_rung as check_rung
from .clients.apigee_gate import (
    ApigeeGate as ApigeeGate,
    ApigeeGateArgs as ApigeeGateArgs,
    ApigeeProductArgs as ApigeeProductArgs,
)
from .clients.certificates import ClientCertificatesArgs as ClientCertificatesArgs
from .clients.client_gate import ClientGate as ClientGate
from .clients.client_keys import ClientKeys as ClientKeys, ClientKeysArgs as ClientKeysArgs
from .clients.counter_store import (
    AnswerStore as AnswerStore,
    CounterStore as CounterStore,
    CounterStoreArgs as CounterStoreArgs,
)
from .clients.settings import (
    AnswerCacheArgs as AnswerCacheArgs,
    ClientGateArgs as ClientGateArgs,
    ClientGuardArgs as ClientGuardArgs,
    ClientModelArgs as ClientModelArgs,
    ClientTeamArgs as ClientTeamArgs,
    TokenIssuerArgs as TokenIssuerArgs,
    TokenPriceArgs as TokenPriceArgs,
)
from .cluster.cluster import InferenceCluster as InferenceCluster
from .cluster.existing_cluster import (
    ExistingCluster as ExistingCluster,
    ExistingClusterArgs as ExistingClusterArgs,
)
from .cluster.network import (
    Network as Network,
    NetworkArgs as NetworkArgs,
    RegionRangesArgs as RegionRangesArgs,
)
from .cluster.private_services import (
    PrivateServices as PrivateServices,
    PrivateServicesArgs as PrivateServicesArgs,
)
from .cluster.settings import (
    InferenceClusterArgs as InferenceClusterArgs,
    MaintenanceArgs as MaintenanceArgs,
    SystemPoolArgs as SystemPoolArgs,
)
from .cluster.workload_identity import (
    BucketAccessArgs as BucketAccessArgs,
    WorkloadIdentity as WorkloadIdentity,
    WorkloadIdentityArgs as WorkloadIdentityArgs,
)
from .delivery.config_sync import (
    ConfigSync as ConfigSync,
    ConfigSyncArgs as ConfigSyncArgs,
    SyncedClusterArgs as SyncedClusterArgs,
)
from .delivery.model_delivery import (
    ModelDelivery as ModelDelivery,
    ModelDeliveryArgs as ModelDeliveryArgs,
)
from .front.dns_front import DnsFront as DnsFront, DnsFrontArgs as DnsFrontArgs
from .front.exported_pools import (
    ExportedPools as ExportedPools,
    ExportedPoolsArgs as ExportedPoolsArgs,
)
from .front.fleet import (
    Fleet as Fleet,
    FleetArgs as FleetArgs,
    FleetClusterArgs as FleetClusterArgs,
)
from .front.fleet_gateway import FleetGateway as FleetGateway, FleetGatewayArgs as FleetGatewayArgs
from .front.global_front import (
    FrontRegionArgs as FrontRegionArgs,
    GlobalFront as GlobalFront,
    GlobalFrontArgs as GlobalFrontArgs,
)
from .front.published_gateway import (
    PublishedGateway as PublishedGateway,
    PublishedGatewayArgs as PublishedGatewayArgs,
)
from .gateway.certificate import (
    GatewayCertificate as GatewayCertificate,
    GatewayCertificateArgs as GatewayCertificateArgs,
)
from .gateway.inference_gateway import (
    InferenceGateway as InferenceGateway,
    InferenceGatewayArgs as InferenceGatewayArgs,
    RoutedCanaryArgs as RoutedCanaryArgs,
    RoutedModelArgs as RoutedModelArgs,
    RouteSourceArgs as RouteSourceArgs,
)
from .gateway.model_routes import ModelRoutes as ModelRoutes, ModelRoutesArgs as ModelRoutesArgs
from .gateway.record import GatewayRecord as GatewayRecord, GatewayRecordArgs as GatewayRecordArgs
from .guardrails.armor_calls import ArmorCallArgs as ArmorCallArgs
from .guardrails.model_armor import (
    ArmorFiltersArgs as ArmorFiltersArgs,
    ModelArmor as ModelArmor,
    ModelArmorArgs as ModelArmorArgs,
)
from .guardrails.model_armor_gate import (
    ModelArmorGate as ModelArmorGate,
    ModelArmorGateArgs as ModelArmorGateArgs,
)
from .guardrails.model_armor_project import (
    ModelArmorProject as ModelArmorProject,
    ModelArmorProjectArgs as ModelArmorProjectArgs,
)
from .guardrails.nemo_guardrails import (
    NemoGuardrails as NemoGuardrails,
    NemoGuardrailsArgs as NemoGuardrailsArgs,
)
from .images.admission import (
    ImageAdmission as ImageAdmission,
    ImageAdmissionArgs as ImageAdmissionArgs,
)
from .images.attestor import ImageAttestor as ImageAttestor, ImageAttestorArgs as ImageAttestorArgs
from .images.build import ImageBuild as ImageBuild, ImageBuildArgs as ImageBuildArgs
from .images.builder import ImageBuilder as ImageBuilder, ImageBuilderArgs as ImageBuilderArgs
from .images.pull_through import (
    PullThrough as PullThrough,
    PullThroughArgs as PullThroughArgs,
    UpstreamCredentialsArgs as UpstreamCredentialsArgs,
)
from .images.repository import (
    EngineRepository as EngineRepository,
    EngineRepositoryArgs as EngineRepositoryArgs,
)
from .intent.intent import (
    LiveAdaptersArgs as LiveAdaptersArgs,
    ModelServerArgs as ModelServerArgs,
    SpeculativeArgs as SpeculativeArgs,
)
from .namespace.connected_models import (
    ConnectedModels as ConnectedModels,
    ConnectedModelsArgs as ConnectedModelsArgs,
)
from .namespace.network_policies import AllowedIngressArgs as AllowedIngressArgs
from .namespace.serving_namespace import (
    ServingNamespace as ServingNamespace,
    ServingNamespaceArgs as ServingNamespaceArgs,
)
from .namespace.team_share import TeamShare as TeamShare, TeamShareArgs as TeamShareArgs
from .observability.alerts import (
    Alerts as Alerts,
    AlertsArgs as AlertsArgs,
    ReceiverArgs as ReceiverArgs,
)
from .observability.budget import Budget as Budget, BudgetArgs as BudgetArgs
from .observability.dashboards import (
    Dashboards as Dashboards,
    DashboardsArgs as DashboardsArgs,
    ObservedModelArgs as ObservedModelArgs,
)
from .observability.monitoring import Monitoring as Monitoring, MonitoringArgs as MonitoringArgs
from .operators.cluster_kinds import (
    ClusterKinds as ClusterKinds,
    ClusterKindsArgs as ClusterKindsArgs,
)
from .operators.device_drivers import (
    DeviceDrivers as DeviceDrivers,
    DeviceDriversArgs as DeviceDriversArgs,
)
from .operators.group_operator import (
    LeaderWorkerSetOperator as LeaderWorkerSetOperator,
    LeaderWorkerSetOperatorArgs as LeaderWorkerSetOperatorArgs,
)
from .operators.metrics_adapter import (
    MetricsAdapter as MetricsAdapter,
    MetricsAdapterArgs as MetricsAdapterArgs,
)
from .operators.queue_operator import (
    QueueOperator as QueueOperator,
    QueueOperatorArgs as QueueOperatorArgs,
)
from .personal.personal_front import (
    PersonalFront as PersonalFront,
    PersonalFrontArgs as PersonalFrontArgs,
)
from .personal.personal_worker import (
    PersonalWorker as PersonalWorker,
    PersonalWorkerArgs as PersonalWorkerArgs,
)
from .queues.job_namespace import JobNamespace as JobNamespace, JobNamespaceArgs as JobNamespaceArgs
from .queues.job_queue import (
    JobQueue as JobQueue,
    JobQueueArgs as JobQueueArgs,
    QueueFlavorArgs as QueueFlavorArgs,
    QueueTeamArgs as QueueTeamArgs,
)
from .serving.autoscaling import Autoscaling as Autoscaling, AutoscalingArgs as AutoscalingArgs
from .serving.model_server import ModelServer as ModelServer
from .serving.weights_gate import WeightsGate as WeightsGate, WeightsGateArgs as WeightsGateArgs
from .storage.archive_bucket import (
    ArchiveBucket as ArchiveBucket,
    ArchiveBucketArgs as ArchiveBucketArgs,
)
from .storage.fuse_volume import FuseVolume as FuseVolume, FuseVolumeArgs as FuseVolumeArgs
from .storage.lustre_folder import (
    LustreFolder as LustreFolder,
    LustreFolderArgs as LustreFolderArgs,
)
from .storage.model_bucket import ModelBucket as ModelBucket, ModelBucketArgs as ModelBucketArgs
from .storage.model_disk import ModelDisk as ModelDisk, ModelDiskArgs as ModelDiskArgs
from .storage.shared_folder import (
    SharedFolder as SharedFolder,
    SharedFolderArgs as SharedFolderArgs,
)
from .storage.weights_job import (
    WeightsDiskArgs as WeightsDiskArgs,
    WeightsJob as WeightsJob,
    WeightsJobArgs as WeightsJobArgs,
)
from .streams.stream_topics import (
    StreamTopics as StreamTopics,
    StreamTopicsArgs as StreamTopicsArgs,
)
from .streams.stream_worker import (
    StreamWorker as StreamWorker,
    StreamWorkerArgs as StreamWorkerArgs,
)
