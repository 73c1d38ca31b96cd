"""The typed form of a stack file: the keys allowed under `gke-inference:platform`."""

from gke_inference.backends.settings import BackendKind
from gke_inference.catalogue.accelerators import Provisioning
from gke_inference.clients.settings import Priority, StoreNodes, TeamLimits, TokenIssuer, TokenPrice
from gke_inference.cluster.settings import ClusterMode, Maintenance, ReleaseChannel
from gke_inference.gateway.settings import Exposure
from gke_inference.guardrails.settings import ArmorFilters, Confidence, Enforcement, Failure, Phase
from gke_inference.intent.diffusion_settings import FurtherModel, ImageGeneration, Videos
from gke_inference.intent.settings import Speculative
from gke_inference.intent.words import Form, Role, Spanning, Task
from gke_inference.settings.fields import (
    BootDisk,
)
from gke_inference.settings.size import Size
from gke_inference.settings.week import Day
from gke_inference.streams.settings import ResultsKind
from infra.stack.backends import Backend, BackendTarget, CloudRunDeployment, Fallback
from infra.stack.batches import BatchEngine, Batches, BatchWorkers, CompletionWindow
from infra.stack.budget import Budget, Covers
from infra.stack.capacity import Capacity, NodePools
from infra.stack.clients import (
    AnswerCache,
    Apigee,
    ClientCertificates,
    Clients,
    ClientTeam,
    Counters,
    People,
)
from infra.stack.delivery import (
    Delivery,
    DeliveryKind,
    DeliverySource,
    DeliverySourceKind,
    DeliveryTool,
)
from infra.stack.engines import (
    EngineSettings,
    KvOffload,
    SharedPlace,
    SharedTier,
)
from infra.stack.existing import Existing, ExistingInRegion, ExistingSubnet
from infra.stack.gateway import Dns, Fleet, Front, FrontRouter, Gateway, Publish
from infra.stack.guardrails import Guardrail, GuardrailKind
from infra.stack.images import Attestation, ImageBuilds, Images, VulnerabilitySeverity
from infra.stack.layers import Chips, Layer, Serving, Team
from infra.stack.models import (
    AdapterPlace,
    Canary,
    Disk,
    FromZero,
    Model,
    Replicas,
    Routing,
    Slo,
)
from infra.stack.monitoring import Monitoring, Receiver, ReceiverKind, Severity
from infra.stack.optimization import Evaluation, Optimization, Quantization, Tuning
from infra.stack.personal import PersonalImages
from infra.stack.pipelines import Pipeline, PipelineWorkers
from infra.stack.queues import Queue, QueueFlavor, QueueTeam
from infra.stack.regions import ClusterSpread, Ranges, Region, SystemPool
from infra.stack.root import Platform
from infra.stack.storage import (
    Archive,
    Filestore,
    FuseProfile,
    ImageCache,
    Lustre,
    Storage,
)
from infra.stack.streams import (
    SourceKind,
    Stream,
    StreamResults,
    StreamSource,
    StreamWorkers,
)

__all__ = [
    "AdapterPlace",
    "AnswerCache",
    "Apigee",
    "Archive",
    "ArmorFilters",
    "Attestation",
    "Backend",
    "BackendKind",
    "BackendTarget",
    "BatchEngine",
    "BatchWorkers",
    "Batches",
    "BootDisk",
    "Budget",
    "Canary",
    "Capacity",
    "Chips",
    "ClientCertificates",
    "ClientTeam",
    "Clients",
    "CloudRunDeployment",
    "ClusterMode",
    "ClusterSpread",
    "CompletionWindow",
    "Confidence",
    "Counters",
    "Covers",
    "Day",
    "Delivery",
    "DeliveryKind",
    "DeliverySource",
    "DeliverySourceKind",
    "DeliveryTool",
    "Disk",
    "Dns",
    "Enforcement",
    "EngineSettings",
    "Evaluation",
    "Existing",
    "ExistingInRegion",
    "ExistingSubnet",
    "Exposure",
    "Failure",
    "Fallback",
    "Filestore",
    "Fleet",
    "Form",
    "FromZero",
    "Front",
    "FrontRouter",
    "FurtherModel",
    "FuseProfile",
    "Gateway",
    "Guardrail",
    "GuardrailKind",
    "ImageBuilds",
    "ImageCache",
    "ImageGeneration",
    "Images",
    "KvOffload",
    "Layer",
    "Lustre",
    "Maintenance",
    "Model",
    "Monitoring",
    "NodePools",
    "Optimization",
    "People",
    "PersonalImages",
    "Phase",
    "Pipeline",
    "PipelineWorkers",
    "Platform",
    "Priority",
    "Provisioning",
    "Publish",
    "Quantization",
    "Queue",
    "QueueFlavor",
    "QueueTeam",
    "Ranges",
    "Receiver",
    "ReceiverKind",
    "Region",
    "ReleaseChannel",
    "Replicas",
    "ResultsKind",
    "Role",
    "Routing",
    "Serving",
    "Severity",
    "SharedPlace",
    "SharedTier",
    "Size",
    "Slo",
    "SourceKind",
    "Spanning",
    "Speculative",
    "Storage",
    "StoreNodes",
    "Stream",
    "StreamResults",
    "StreamSource",
    "StreamWorkers",
    "SystemPool",
    "Task",
    "Team",
    "TeamLimits",
    "TokenIssuer",
    "TokenPrice",
    "Tuning",
    "Videos",
    "VulnerabilitySeverity",
]
