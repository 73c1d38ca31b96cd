"""Pulumi components for AI inference on Google Kubernetes Engine.

The components and the words of their inputs are here, loaded when they are first used: the cloud
SDKs behind them take seconds, and the data does not need them. Rules and data are in submodules:
`accelerators` (what exists), `prices`, `rungs`, `names`, `fuse`.
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
    from .capacity.accelerator_pool import AcceleratorPool, AcceleratorPoolArgs
    from .capacity.compute_class import ComputeClass, ComputeClassArgs
    from .capacity.node_image_cache import NodeImageCache, NodeImageCacheArgs
    from .catalogue.input_error import InputError
    from .catalogue.rungs import Rung, RungArgs, check_rung
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
    from .cluster.cluster import InferenceCluster, InferenceClusterArgs
    from .cluster.existing_cluster import ExistingCluster, ExistingClusterArgs
    from .cluster.network import Network, NetworkArgs, RegionRangesArgs
    from .cluster.settings import MaintenanceArgs, SystemPoolArgs
    from .cluster.workload_identity import BucketAccessArgs, WorkloadIdentity, WorkloadIdentityArgs
    from .delivery.config_sync import ConfigSync, ConfigSyncArgs, SyncedClusterArgs
    from .delivery.model_delivery import ModelDelivery, ModelDeliveryArgs
    from .front.dns_front import DnsFront, DnsFrontArgs
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
    from .operators.group_operator import LeaderWorkerSetOperator, LeaderWorkerSetOperatorArgs
    from .operators.metrics_adapter import MetricsAdapter, MetricsAdapterArgs
    from .operators.queue_operator import QueueOperator, QueueOperatorArgs
    from .queues.job_namespace import JobNamespace, JobNamespaceArgs
    from .queues.job_queue import JobQueue, JobQueueArgs, QueueFlavorArgs, QueueTeamArgs
    from .serving.autoscaling import Autoscaling, AutoscalingArgs
    from .serving.model_server import ModelServer
    from .serving.weights_gate import WeightsGate, WeightsGateArgs
    from .storage.fuse_volume import FuseVolume, FuseVolumeArgs
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
    "ClientGate",
    "ClientGateArgs",
    "ClientGuardArgs",
    "ClientKeys",
    "ClientKeysArgs",
    "ClientModelArgs",
    "ClientTeamArgs",
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
    "DnsFront",
    "DnsFrontArgs",
    "EngineRepository",
    "EngineRepositoryArgs",
    "ExistingCluster",
    "ExistingClusterArgs",
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
    "PoolFallback",
    "PoolFallbackArgs",
    "PublishedGateway",
    "PublishedGatewayArgs",
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
    "WeightsDiskArgs",
    "WeightsGate",
    "WeightsGateArgs",
    "WeightsJob",
    "WeightsJobArgs",
    "WorkloadIdentity",
    "WorkloadIdentityArgs",
    "check_rung",
]

_HOMES = {
    "AcceleratorPool": "capacity.accelerator_pool",
    "AcceleratorPoolArgs": "capacity.accelerator_pool",
    "Alerts": "observability.alerts",
    "AlertsArgs": "observability.alerts",
    "AllowedIngressArgs": "namespace.network_policies",
    "AnswerCacheArgs": "clients.settings",
    "AnswerStore": "clients.counter_store",
    "ArmorCallArgs": "guardrails.armor_calls",
    "ArmorFiltersArgs": "guardrails.model_armor",
    "Autoscaling": "serving.autoscaling",
    "AutoscalingArgs": "serving.autoscaling",
    "BackendAccess": "backends.backend_access",
    "BackendAccessArgs": "backends.backend_access",
    "BackendArgs": "backends.settings",
    "BackendTargetArgs": "backends.settings",
    "BucketAccessArgs": "cluster.workload_identity",
    "BatchBucket": "batches.batch_bucket",
    "BatchBucketArgs": "batches.batch_bucket",
    "BatchCallersArgs": "batches.settings",
    "BatchModelArgs": "batches.settings",
    "BatchService": "batches.batch_service",
    "BatchServiceArgs": "batches.settings",
    "Budget": "observability.budget",
    "BudgetArgs": "observability.budget",
    "ClientGate": "clients.client_gate",
    "ClientGateArgs": "clients.settings",
    "ClientGuardArgs": "clients.settings",
    "ClientKeys": "clients.client_keys",
    "ClientKeysArgs": "clients.client_keys",
    "ClientModelArgs": "clients.settings",
    "ClientTeamArgs": "clients.settings",
    "ComputeClass": "capacity.compute_class",
    "ComputeClassArgs": "capacity.compute_class",
    "ConfigSync": "delivery.config_sync",
    "ConfigSyncArgs": "delivery.config_sync",
    "ConnectedModels": "namespace.connected_models",
    "ConnectedModelsArgs": "namespace.connected_models",
    "CounterStore": "clients.counter_store",
    "CounterStoreArgs": "clients.counter_store",
    "Dashboards": "observability.dashboards",
    "DashboardsArgs": "observability.dashboards",
    "DnsFront": "front.dns_front",
    "DnsFrontArgs": "front.dns_front",
    "EngineRepository": "images.repository",
    "EngineRepositoryArgs": "images.repository",
    "ExistingCluster": "cluster.existing_cluster",
    "ExistingClusterArgs": "cluster.existing_cluster",
    "FrontRegionArgs": "front.global_front",
    "FuseVolume": "storage.fuse_volume",
    "FuseVolumeArgs": "storage.fuse_volume",
    "GatewayCertificate": "gateway.certificate",
    "GatewayCertificateArgs": "gateway.certificate",
    "GatewayRecord": "gateway.record",
    "GatewayRecordArgs": "gateway.record",
    "GlobalFront": "front.global_front",
    "GlobalFrontArgs": "front.global_front",
    "ImageAdmission": "images.admission",
    "ImageAdmissionArgs": "images.admission",
    "ImageAttestor": "images.attestor",
    "ImageAttestorArgs": "images.attestor",
    "ImageBuild": "images.build",
    "ImageBuildArgs": "images.build",
    "ImageBuilder": "images.builder",
    "ImageBuilderArgs": "images.builder",
    "InferenceCluster": "cluster.cluster",
    "InferenceClusterArgs": "cluster.cluster",
    "InferenceGateway": "gateway.inference_gateway",
    "InferenceGatewayArgs": "gateway.inference_gateway",
    "InputError": "catalogue.input_error",
    "JobNamespace": "queues.job_namespace",
    "JobNamespaceArgs": "queues.job_namespace",
    "JobQueue": "queues.job_queue",
    "JobQueueArgs": "queues.job_queue",
    "LeaderWorkerSetOperator": "operators.group_operator",
    "LeaderWorkerSetOperatorArgs": "operators.group_operator",
    "LiveAdaptersArgs": "intent.intent",
    "MaintenanceArgs": "cluster.settings",
    "MetricsAdapter": "operators.metrics_adapter",
    "MetricsAdapterArgs": "operators.metrics_adapter",
    "ModelArmor": "guardrails.model_armor",
    "ModelArmorArgs": "guardrails.model_armor",
    "ModelArmorGate": "guardrails.model_armor_gate",
    "ModelArmorGateArgs": "guardrails.model_armor_gate",
    "ModelArmorProject": "guardrails.model_armor_project",
    "ModelArmorProjectArgs": "guardrails.model_armor_project",
    "ModelBackends": "backends.model_backends",
    "ModelBackendsArgs": "backends.model_backends",
    "ModelBucket": "storage.model_bucket",
    "ModelBucketArgs": "storage.model_bucket",
    "ModelDelivery": "delivery.model_delivery",
    "ModelDeliveryArgs": "delivery.model_delivery",
    "ModelDisk": "storage.model_disk",
    "ModelDiskArgs": "storage.model_disk",
    "ModelRoutes": "gateway.model_routes",
    "ModelRoutesArgs": "gateway.model_routes",
    "ModelServer": "serving.model_server",
    "ModelServerArgs": "intent.intent",
    "Monitoring": "observability.monitoring",
    "MonitoringArgs": "observability.monitoring",
    "NemoGuardrails": "guardrails.nemo_guardrails",
    "NemoGuardrailsArgs": "guardrails.nemo_guardrails",
    "Network": "cluster.network",
    "NetworkArgs": "cluster.network",
    "NodeImageCache": "capacity.node_image_cache",
    "NodeImageCacheArgs": "capacity.node_image_cache",
    "ObservedModelArgs": "observability.dashboards",
    "PoolFallback": "backends.pool_fallback",
    "PoolFallbackArgs": "backends.pool_fallback",
    "PublishedGateway": "front.published_gateway",
    "PublishedGatewayArgs": "front.published_gateway",
    "QueueFlavorArgs": "queues.job_queue",
    "QueueOperator": "operators.queue_operator",
    "QueueOperatorArgs": "operators.queue_operator",
    "QueueTeamArgs": "queues.job_queue",
    "ReceiverArgs": "observability.alerts",
    "RegionRangesArgs": "cluster.network",
    "RelayCallersArgs": "backends.settings",
    "RouteSourceArgs": "gateway.inference_gateway",
    "RoutedCanaryArgs": "gateway.inference_gateway",
    "RoutedModelArgs": "gateway.inference_gateway",
    "Rung": "catalogue.rungs",
    "RungArgs": "catalogue.rungs",
    "ServingNamespace": "namespace.serving_namespace",
    "ServingNamespaceArgs": "namespace.serving_namespace",
    "SharedFolder": "storage.shared_folder",
    "SharedFolderArgs": "storage.shared_folder",
    "SpeculativeArgs": "intent.intent",
    "StreamTopics": "streams.stream_topics",
    "StreamTopicsArgs": "streams.stream_topics",
    "StreamWorker": "streams.stream_worker",
    "StreamWorkerArgs": "streams.stream_worker",
    "SyncedClusterArgs": "delivery.config_sync",
    "SystemPoolArgs": "cluster.settings",
    "TeamShare": "namespace.team_share",
    "TeamShareArgs": "namespace.team_share",
    "TokenIssuerArgs": "clients.settings",
    "TokenPriceArgs": "clients.settings",
    "WeightsDiskArgs": "storage.weights_job",
    "WeightsGate": "serving.weights_gate",
    "WeightsGateArgs": "serving.weights_gate",
    "WeightsJob": "storage.weights_job",
    "WeightsJobArgs": "storage.weights_job",
    "WorkloadIdentity": "cluster.workload_identity",
    "WorkloadIdentityArgs": "cluster.workload_identity",
    "check_rung": "catalogue.rungs",
}


def __getattr__(name: str) -> Any:
    """Loads a public name from the module it is in."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Returns what there is, loaded or not."""
    return sorted({*globals(), *__all__})
