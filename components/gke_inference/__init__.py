"""Pulumi components for AI inference on Google Kubernetes Engine.

This package exports the components and the types of their arguments. They are loaded on first use,
since the cloud SDKs behind them take seconds to import. Facts and rules do not need the SDKs:
`catalogue` (accelerators, prices, quotas, versions), `sizing` and `intent`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backends.backend_access import BackendAccess, BackendAccessArgs
    from .backends.model_backends import ModelBackends, ModelBackendsArgs
    from .backends.pool_fallback import PoolFallback, PoolFallbackArgs
    from .backends.settings import BackendArgs, BackendTargetArgs, RelayCallersArgs
    from .batches.batch_bucket import BatchBucket, BatchBucketArgs
    from .batches.batch_service import BatchService
    from .batches.settings import BatchCallersArgs, BatchModelArgs, BatchServiceArgs
    from .capacity.accelerator_pool import AcceleratorPool
    from .capacity.compact_placement import CompactPlacement, CompactPlacementArgs
    from .capacity.compute_class import ComputeClass, ComputeClassArgs
    from .capacity.node_image_cache import NodeImageCache, NodeImageCacheArgs
    from .capacity.pool_settings import AcceleratorPoolArgs
    from .catalogue.input_error import InputError
    from .catalogue.rungs import Rung, RungArgs, check_rung
    from .clients.apigee_gate import ApigeeGate, ApigeeGateArgs, ApigeeProductArgs
    from .clients.certificates import ClientCertificatesArgs
    from .clients.client_gate import ClientGate
    from .clients.client_keys import ClientKeys, ClientKeysArgs
    from .clients.counter_store import AnswerStore, CounterStore, CounterStoreArgs
    from .clients.settings import (
        AnswerCacheArgs,
        ClientGateArgs,
        ClientGuardArgs,
        ClientModelArgs,
        ClientTeamArgs,
        TokenIssuerArgs,
        TokenPriceArgs,
    )
    from .cluster.cluster import InferenceCluster
    from .cluster.existing_cluster import ExistingCluster, ExistingClusterArgs
    from .cluster.network import Network, NetworkArgs, RegionRangesArgs
    from .cluster.private_services import PrivateServices, PrivateServicesArgs
    from .cluster.settings import InferenceClusterArgs, MaintenanceArgs, SystemPoolArgs
    from .cluster.workload_identity import BucketAccessArgs, WorkloadIdentity, WorkloadIdentityArgs
    from .delivery.config_sync import ConfigSync, ConfigSyncArgs, SyncedClusterArgs
    from .delivery.model_delivery import ModelDelivery, ModelDeliveryArgs
    from .front.dns_front import DnsFront, DnsFrontArgs
    from .front.exported_pools import ExportedPools, ExportedPoolsArgs
    from .front.fleet import Fleet, FleetArgs, FleetClusterArgs
    from .front.fleet_gateway import FleetGateway, FleetGatewayArgs
    from .front.global_front import FrontRegionArgs, GlobalFront, GlobalFrontArgs
    from .front.published_gateway import PublishedGateway, PublishedGatewayArgs
    from .gateway.certificate import GatewayCertificate, GatewayCertificateArgs
    from .gateway.inference_gateway import (
        InferenceGateway,
        InferenceGatewayArgs,
        RoutedCanaryArgs,
        RoutedModelArgs,
        RouteSourceArgs,
    )
    from .gateway.model_routes import ModelRoutes, ModelRoutesArgs
    from .gateway.record import GatewayRecord, GatewayRecordArgs
    from .guardrails.armor_calls import ArmorCallArgs
    from .guardrails.model_armor import ArmorFiltersArgs, ModelArmor, ModelArmorArgs
    from .guardrails.model_armor_gate import ModelArmorGate, ModelArmorGateArgs
    from .guardrails.model_armor_project import ModelArmorProject, ModelArmorProjectArgs
    from .guardrails.nemo_guardrails import NemoGuardrails, NemoGuardrailsArgs
    from .images.admission import ImageAdmission, ImageAdmissionArgs
    from .images.attestor import ImageAttestor, ImageAttestorArgs
    from .images.build import ImageBuild, ImageBuildArgs
    from .images.builder import ImageBuilder, ImageBuilderArgs
    from .images.pull_through import PullThrough, PullThroughArgs, UpstreamCredentialsArgs
    from .images.repository import EngineRepository, EngineRepositoryArgs
    from .intent.intent import LiveAdaptersArgs, ModelServerArgs, SpeculativeArgs
    from .namespace.connected_models import ConnectedModels, ConnectedModelsArgs
    from .namespace.network_policies import AllowedIngressArgs
    from .namespace.serving_namespace import ServingNamespace, ServingNamespaceArgs
    from .namespace.team_share import TeamShare, TeamShareArgs
    from .observability.alerts import Alerts, AlertsArgs, ReceiverArgs
    from .observability.budget import Budget, BudgetArgs
    from .observability.dashboards import Dashboards, DashboardsArgs, ObservedModelArgs
    from .observability.monitoring import Monitoring, MonitoringArgs
    from .operators.cluster_kinds import ClusterKinds, ClusterKindsArgs
    from .operators.device_drivers import DeviceDrivers, DeviceDriversArgs
    from .operators.group_operator import LeaderWorkerSetOperator, LeaderWorkerSetOperatorArgs
    from .operators.metrics_adapter import MetricsAdapter, MetricsAdapterArgs
    from .operators.queue_operator import QueueOperator, QueueOperatorArgs
    from .personal.personal_front import PersonalFront, PersonalFrontArgs
    from .personal.personal_worker import PersonalWorker, PersonalWorkerArgs
    from .queues.job_namespace import JobNamespace, JobNamespaceArgs
    from .queues.job_queue import JobQueue, JobQueueArgs, QueueFlavorArgs, QueueTeamArgs
    from .serving.autoscaling import Autoscaling, AutoscalingArgs
    from .serving.model_server import ModelServer
    from .serving.weights_gate import WeightsGate, WeightsGateArgs
    from .storage.archive_bucket import ArchiveBucket, ArchiveBucketArgs
    from .storage.fuse_volume import FuseVolume, FuseVolumeArgs
    from .storage.lustre_folder import LustreFolder, LustreFolderArgs
    from .storage.model_bucket import ModelBucket, ModelBucketArgs
    from .storage.model_disk import ModelDisk, ModelDiskArgs
    from .storage.shared_folder import SharedFolder, SharedFolderArgs
    from .storage.weights_job import WeightsDiskArgs, WeightsJob, WeightsJobArgs
    from .streams.stream_topics import StreamTopics, StreamTopicsArgs
    from .streams.stream_worker import StreamWorker, StreamWorkerArgs

__all__ = [
    "AcceleratorPool",
    "AcceleratorPoolArgs",
    "Alerts",
    "AlertsArgs",
    "AllowedIngressArgs",
    "AnswerCacheArgs",
    "AnswerStore",
    "ApigeeGate",
    "ApigeeGateArgs",
    "ApigeeProductArgs",
    "ArchiveBucket",
    "ArchiveBucketArgs",
    "ArmorCallArgs",
    "ArmorFiltersArgs",
    "Autoscaling",
    "AutoscalingArgs",
    "BackendAccess",
    "BackendAccessArgs",
    "BackendArgs",
    "BackendTargetArgs",
    "BatchBucket",
    "BatchBucketArgs",
    "BatchCallersArgs",
    "BatchModelArgs",
    "BatchService",
    "BatchServiceArgs",
    "BucketAccessArgs",
    "Budget",
    "BudgetArgs",
    "ClientCertificatesArgs",
    "ClientGate",
    "ClientGateArgs",
    "ClientGuardArgs",
    "ClientKeys",
    "ClientKeysArgs",
    "ClientModelArgs",
    "ClientTeamArgs",
    "ClusterKinds",
    "ClusterKindsArgs",
    "CompactPlacement",
    "CompactPlacementArgs",
    "ComputeClass",
    "ComputeClassArgs",
    "ConfigSync",
    "ConfigSyncArgs",
    "ConnectedModels",
    "ConnectedModelsArgs",
    "CounterStore",
    "CounterStoreArgs",
    "Dashboards",
    "DashboardsArgs",
    "DeviceDrivers",
    "DeviceDriversArgs",
    "DnsFront",
    "DnsFrontArgs",
    "EngineRepository",
    "EngineRepositoryArgs",
    "ExistingCluster",
    "ExistingClusterArgs",
    "ExportedPools",
    "ExportedPoolsArgs",
    "Fleet",
    "FleetArgs",
    "FleetClusterArgs",
    "FleetGateway",
    "FleetGatewayArgs",
    "FrontRegionArgs",
    "FuseVolume",
    "FuseVolumeArgs",
    "GatewayCertificate",
    "GatewayCertificateArgs",
    "GatewayRecord",
    "GatewayRecordArgs",
    "GlobalFront",
    "GlobalFrontArgs",
    "ImageAdmission",
    "ImageAdmissionArgs",
    "ImageAttestor",
    "ImageAttestorArgs",
    "ImageBuild",
    "ImageBuildArgs",
    "ImageBuilder",
    "ImageBuilderArgs",
    "InferenceCluster",
    "InferenceClusterArgs",
    "InferenceGateway",
    "InferenceGatewayArgs",
    "InputError",
    "JobNamespace",
    "JobNamespaceArgs",
    "JobQueue",
    "JobQueueArgs",
    "LeaderWorkerSetOperator",
    "LeaderWorkerSetOperatorArgs",
    "LiveAdaptersArgs",
    "LustreFolder",
    "LustreFolderArgs",
    "MaintenanceArgs",
    "MetricsAdapter",
    "MetricsAdapterArgs",
    "ModelArmor",
    "ModelArmorArgs",
    "ModelArmorGate",
    "ModelArmorGateArgs",
    "ModelArmorProject",
    "ModelArmorProjectArgs",
    "ModelBackends",
    "ModelBackendsArgs",
    "ModelBucket",
    "ModelBucketArgs",
    "ModelDelivery",
    "ModelDeliveryArgs",
    "ModelDisk",
    "ModelDiskArgs",
    "ModelRoutes",
    "ModelRoutesArgs",
    "ModelServer",
    "ModelServerArgs",
    "Monitoring",
    "MonitoringArgs",
    "NemoGuardrails",
    "NemoGuardrailsArgs",
    "Network",
    "NetworkArgs",
    "NodeImageCache",
    "NodeImageCacheArgs",
    "ObservedModelArgs",
    "PersonalFront",
    "PersonalFrontArgs",
    "PersonalWorker",
    "PersonalWorkerArgs",
    "PoolFallback",
    "PoolFallbackArgs",
    "PrivateServices",
    "PrivateServicesArgs",
    "PublishedGateway",
    "PublishedGatewayArgs",
    "PullThrough",
    "PullThroughArgs",
    "QueueFlavorArgs",
    "QueueOperator",
    "QueueOperatorArgs",
    "QueueTeamArgs",
    "ReceiverArgs",
    "RegionRangesArgs",
    "RelayCallersArgs",
    "RouteSourceArgs",
    "RoutedCanaryArgs",
    "RoutedModelArgs",
    "Rung",
    "RungArgs",
    "ServingNamespace",
    "ServingNamespaceArgs",
    "SharedFolder",
    "SharedFolderArgs",
    "SpeculativeArgs",
    "StreamTopics",
    "StreamTopicsArgs",
    "StreamWorker",
    "StreamWorkerArgs",
    "SyncedClusterArgs",
    "SystemPoolArgs",
    "TeamShare",
    "TeamShareArgs",
    "TokenIssuerArgs",
    "TokenPriceArgs",
    "UpstreamCredentialsArgs",
    "WeightsDiskArgs",
    "WeightsGate",
    "WeightsGateArgs",
    "WeightsJob",
    "WeightsJobArgs",
    "WorkloadIdentity",
    "WorkloadIdentityArgs",
    "check_rung",
]

# Where each public name is; an `…Args` that is not listed is beside its component.
_HOMES = {
    "AcceleratorPool": "capacity.accelerator_pool",
    "AcceleratorPoolArgs": "capacity.pool_settings",
    "Alerts": "observability.alerts",
    "AllowedIngressArgs": "namespace.network_policies",
    "AnswerCacheArgs": "clients.settings",
    "AnswerStore": "clients.counter_store",
    "ApigeeGate": "clients.apigee_gate",
    "ApigeeProductArgs": "clients.apigee_gate",
    "ArchiveBucket": "storage.archive_bucket",
    "ArmorCallArgs": "guardrails.armor_calls",
    "ArmorFiltersArgs": "guardrails.model_armor",
    "Autoscaling": "serving.autoscaling",
    "BackendAccess": "backends.backend_access",
    "BackendArgs": "backends.settings",
    "BackendTargetArgs": "backends.settings",
    "BucketAccessArgs": "cluster.workload_identity",
    "BatchBucket": "batches.batch_bucket",
    "BatchCallersArgs": "batches.settings",
    "BatchModelArgs": "batches.settings",
    "BatchService": "batches.batch_service",
    "BatchServiceArgs": "batches.settings",
    "Budget": "observability.budget",
    "ClientGate": "clients.client_gate",
    "ClientCertificatesArgs": "clients.certificates",
    "ClientGateArgs": "clients.settings",
    "ClientGuardArgs": "clients.settings",
    "ClientKeys": "clients.client_keys",
    "ClientModelArgs": "clients.settings",
    "ClientTeamArgs": "clients.settings",
    "ClusterKinds": "operators.cluster_kinds",
    "CompactPlacement": "capacity.compact_placement",
    "CompactPlacementArgs": "capacity.compact_placement",
    "ComputeClass": "capacity.compute_class",
    "ConfigSync": "delivery.config_sync",
    "ConnectedModels": "namespace.connected_models",
    "CounterStore": "clients.counter_store",
    "Dashboards": "observability.dashboards",
    "DeviceDrivers": "operators.device_drivers",
    "DnsFront": "front.dns_front",
    "EngineRepository": "images.repository",
    "ExistingCluster": "cluster.existing_cluster",
    "ExportedPools": "front.exported_pools",
    "Fleet": "front.fleet",
    "FleetClusterArgs": "front.fleet",
    "FleetGateway": "front.fleet_gateway",
    "FrontRegionArgs": "front.global_front",
    "FuseVolume": "storage.fuse_volume",
    "GatewayCertificate": "gateway.certificate",
    "GatewayRecord": "gateway.record",
    "GlobalFront": "front.global_front",
    "ImageAdmission": "images.admission",
    "ImageAttestor": "images.attestor",
    "ImageBuild": "images.build",
    "ImageBuilder": "images.builder",
    "InferenceCluster": "cluster.cluster",
    "InferenceClusterArgs": "cluster.settings",
    "InferenceGateway": "gateway.inference_gateway",
    "InputError": "catalogue.input_error",
    "JobNamespace": "queues.job_namespace",
    "JobQueue": "queues.job_queue",
    "LeaderWorkerSetOperator": "operators.group_operator",
    "LiveAdaptersArgs": "intent.intent",
    "LustreFolder": "storage.lustre_folder",
    "MaintenanceArgs": "cluster.settings",
    "MetricsAdapter": "operators.metrics_adapter",
    "ModelArmor": "guardrails.model_armor",
    "ModelArmorGate": "guardrails.model_armor_gate",
    "ModelArmorProject": "guardrails.model_armor_project",
    "ModelBackends": "backends.model_backends",
    "ModelBucket": "storage.model_bucket",
    "ModelDelivery": "delivery.model_delivery",
    "ModelDisk": "storage.model_disk",
    "ModelRoutes": "gateway.model_routes",
    "ModelServer": "serving.model_server",
    "ModelServerArgs": "intent.intent",
    "Monitoring": "observability.monitoring",
    "NemoGuardrails": "guardrails.nemo_guardrails",
    "Network": "cluster.network",
    "NodeImageCache": "capacity.node_image_cache",
    "ObservedModelArgs": "observability.dashboards",
    "PersonalFront": "personal.personal_front",
    "PersonalWorker": "personal.personal_worker",
    "PoolFallback": "backends.pool_fallback",
    "PrivateServices": "cluster.private_services",
    "PublishedGateway": "front.published_gateway",
    "PullThrough": "images.pull_through",
    "QueueFlavorArgs": "queues.job_queue",
    "QueueOperator": "operators.queue_operator",
    "QueueTeamArgs": "queues.job_queue",
    "ReceiverArgs": "observability.alerts",
    "RegionRangesArgs": "cluster.network",
    "RelayCallersArgs": "backends.settings",
    "RouteSourceArgs": "gateway.inference_gateway",
    "RoutedCanaryArgs": "gateway.inference_gateway",
    "RoutedModelArgs": "gateway.inference_gateway",
    "Rung": "catalogue.rungs",
    "ServingNamespace": "namespace.serving_namespace",
    "SharedFolder": "storage.shared_folder",
    "SpeculativeArgs": "intent.intent",
    "StreamTopics": "streams.stream_topics",
    "StreamWorker": "streams.stream_worker",
    "SyncedClusterArgs": "delivery.config_sync",
    "SystemPoolArgs": "cluster.settings",
    "TeamShare": "namespace.team_share",
    "TokenIssuerArgs": "clients.settings",
    "TokenPriceArgs": "clients.settings",
    "UpstreamCredentialsArgs": "images.pull_through",
    "WeightsDiskArgs": "storage.weights_job",
    "WeightsGate": "serving.weights_gate",
    "WeightsJob": "storage.weights_job",
    "WorkloadIdentity": "cluster.workload_identity",
    "check_rung": "catalogue.rungs",
}


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    home = _HOMES.get(name) or _HOMES.get(name.removesuffix("Args"))
    if home is None or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return all public names, loaded or not."""
    return sorted({*globals(), *__all__})
