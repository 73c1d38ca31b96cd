"""Pulumi components for AI inference on Google Kubernetes Engine.

The components and the words of their inputs are here, loaded when they are first used: the cloud
SDKs behind them take seconds, and the data does not need them. Rules and data are in submodules:
`accelerators` (what exists), `prices`, `rungs`, `names`, `fuse`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accelerator_pool import AcceleratorPool, AcceleratorPoolArgs
    from .alerts import Alerts, AlertsArgs, ReceiverArgs
    from .autoscaling import Autoscaling, AutoscalingArgs
    from .budget import Budget, BudgetArgs
    from .cluster import InferenceCluster, InferenceClusterArgs
    from .cluster_settings import MaintenanceArgs, SystemPoolArgs
    from .compute_class import ComputeClass, ComputeClassArgs
    from .dashboards import Dashboards, DashboardsArgs, ObservedModelArgs
    from .engine_repository import EngineRepository, EngineRepositoryArgs
    from .fuse_volume import FuseVolume, FuseVolumeArgs
    from .group_operator import LeaderWorkerSetOperator, LeaderWorkerSetOperatorArgs
    from .image_admission import ImageAdmission, ImageAdmissionArgs
    from .image_attestor import ImageAttestor, ImageAttestorArgs
    from .image_build import ImageBuild, ImageBuildArgs
    from .image_builder import ImageBuilder, ImageBuilderArgs
    from .inference_gateway import InferenceGateway, InferenceGatewayArgs, RoutedModelArgs
    from .metrics_adapter import MetricsAdapter, MetricsAdapterArgs
    from .model_bucket import ModelBucket, ModelBucketArgs
    from .model_disk import ModelDisk, ModelDiskArgs
    from .monitoring import Monitoring, MonitoringArgs
    from .network import Network, NetworkArgs, RegionRangesArgs
    from .network_policies import AllowedIngressArgs
    from .node_image_cache import NodeImageCache, NodeImageCacheArgs
    from .rungs import Rung, RungArgs, RungError, check_rung
    from .serving_namespace import ServingNamespace, ServingNamespaceArgs
    from .workload_identity import BucketAccessArgs, WorkloadIdentity, WorkloadIdentityArgs

__all__ = [
    "AcceleratorPool",
    "AcceleratorPoolArgs",
    "Alerts",
    "AlertsArgs",
    "AllowedIngressArgs",
    "Autoscaling",
    "AutoscalingArgs",
    "BucketAccessArgs",
    "Budget",
    "BudgetArgs",
    "ComputeClass",
    "ComputeClassArgs",
    "Dashboards",
    "DashboardsArgs",
    "EngineRepository",
    "EngineRepositoryArgs",
    "FuseVolume",
    "FuseVolumeArgs",
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
    "LeaderWorkerSetOperator",
    "LeaderWorkerSetOperatorArgs",
    "MaintenanceArgs",
    "MetricsAdapter",
    "MetricsAdapterArgs",
    "ModelBucket",
    "ModelBucketArgs",
    "ModelDisk",
    "ModelDiskArgs",
    "Monitoring",
    "MonitoringArgs",
    "Network",
    "NetworkArgs",
    "NodeImageCache",
    "NodeImageCacheArgs",
    "ObservedModelArgs",
    "ReceiverArgs",
    "RegionRangesArgs",
    "RoutedModelArgs",
    "Rung",
    "RungArgs",
    "RungError",
    "ServingNamespace",
    "ServingNamespaceArgs",
    "SystemPoolArgs",
    "WorkloadIdentity",
    "WorkloadIdentityArgs",
    "check_rung",
]

_HOMES = {
    "AcceleratorPool": "accelerator_pool",
    "AcceleratorPoolArgs": "accelerator_pool",
    "Alerts": "alerts",
    "AlertsArgs": "alerts",
    "AllowedIngressArgs": "network_policies",
    "Autoscaling": "autoscaling",
    "AutoscalingArgs": "autoscaling",
    "BucketAccessArgs": "workload_identity",
    "Budget": "budget",
    "BudgetArgs": "budget",
    "ComputeClass": "compute_class",
    "ComputeClassArgs": "compute_class",
    "Dashboards": "dashboards",
    "DashboardsArgs": "dashboards",
    "EngineRepository": "engine_repository",
    "EngineRepositoryArgs": "engine_repository",
    "FuseVolume": "fuse_volume",
    "FuseVolumeArgs": "fuse_volume",
    "ImageAdmission": "image_admission",
    "ImageAdmissionArgs": "image_admission",
    "ImageAttestor": "image_attestor",
    "ImageAttestorArgs": "image_attestor",
    "ImageBuild": "image_build",
    "ImageBuildArgs": "image_build",
    "ImageBuilder": "image_builder",
    "ImageBuilderArgs": "image_builder",
    "InferenceCluster": "cluster",
    "InferenceClusterArgs": "cluster",
    "InferenceGateway": "inference_gateway",
    "InferenceGatewayArgs": "inference_gateway",
    "LeaderWorkerSetOperator": "group_operator",
    "LeaderWorkerSetOperatorArgs": "group_operator",
    "MaintenanceArgs": "cluster_settings",
    "MetricsAdapter": "metrics_adapter",
    "MetricsAdapterArgs": "metrics_adapter",
    "ModelBucket": "model_bucket",
    "ModelBucketArgs": "model_bucket",
    "ModelDisk": "model_disk",
    "ModelDiskArgs": "model_disk",
    "Monitoring": "monitoring",
    "MonitoringArgs": "monitoring",
    "Network": "network",
    "NetworkArgs": "network",
    "NodeImageCache": "node_image_cache",
    "NodeImageCacheArgs": "node_image_cache",
    "ObservedModelArgs": "dashboards",
    "ReceiverArgs": "alerts",
    "RegionRangesArgs": "network",
    "RoutedModelArgs": "inference_gateway",
    "Rung": "rungs",
    "RungArgs": "rungs",
    "RungError": "rungs",
    "ServingNamespace": "serving_namespace",
    "ServingNamespaceArgs": "serving_namespace",
    "SystemPoolArgs": "cluster_settings",
    "WorkloadIdentity": "workload_identity",
    "WorkloadIdentityArgs": "workload_identity",
    "check_rung": "rungs",
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
