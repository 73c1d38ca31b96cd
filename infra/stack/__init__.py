"""The typed form of one stack file: what a user may write under `gke-inference:platform`."""

from infra.stack.base.fields import BootDisk
from infra.stack.budget import Budget, Covers
from infra.stack.capacity import Accelerator, Capacity, NodePools, Provisioning, Rung
from infra.stack.delivery import (
    Delivery,
    DeliveryKind,
    DeliverySource,
    DeliverySourceKind,
    DeliveryTool,
)
from infra.stack.edge.backends import Backend, BackendKind, BackendTarget, Fallback
from infra.stack.edge.batches import Batches, BatchWorkers, CompletionWindow
from infra.stack.edge.clients import (
    AnswerCache,
    Clients,
    ClientTeam,
    Counters,
    Priority,
    StoreNodes,
    TokenIssuer,
)
from infra.stack.edge.front import Front, Publish
from infra.stack.edge.guardrails import (
    ArmorFilters,
    Confidence,
    Enforcement,
    Failure,
    Guardrail,
    GuardrailKind,
    Phase,
)
from infra.stack.edge.streams import (
    ResultsKind,
    SourceKind,
    Stream,
    StreamResults,
    StreamSource,
    StreamWorkers,
)
from infra.stack.engines import (
    Engine,
    EngineSettings,
    Guess,
    KvCacheDtype,
    Quantization,
    Speculative,
)
from infra.stack.existing import Existing, ExistingInRegion, ExistingSubnet
from infra.stack.gateway import Dns, Exposure, Gateway
from infra.stack.images import Attestation, Flaw, ImageBuilds, Images
from infra.stack.layers import Chips, Layer, Serving, Team
from infra.stack.models import (
    AdapterPlace,
    Canary,
    Disk,
    Form,
    Model,
    Replicas,
    Size,
    Slo,
    Spanning,
    Task,
)
from infra.stack.monitoring import Monitoring
from infra.stack.pictures import Pictures
from infra.stack.queues import Queue, QueueFlavor, QueueTeam
from infra.stack.receivers import Receiver, ReceiverKind, Severity
from infra.stack.regions import (
    ClusterMode,
    ClusterSpread,
    Day,
    Maintenance,
    Ranges,
    Region,
    ReleaseChannel,
    SystemPool,
)
from infra.stack.root import Platform
from infra.stack.storage import Filestore, FilestoreTier, ImageCache, Storage

__all__ = [
    "Accelerator",
    "AdapterPlace",
    "AnswerCache",
    "ArmorFilters",
    "Attestation",
    "Backend",
    "BackendKind",
    "BackendTarget",
    "BatchWorkers",
    "Batches",
    "BootDisk",
    "Budget",
    "Canary",
    "Capacity",
    "Chips",
    "ClientTeam",
    "Clients",
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
    "Engine",
    "EngineSettings",
    "Existing",
    "ExistingInRegion",
    "ExistingSubnet",
    "Exposure",
    "Failure",
    "Fallback",
    "Filestore",
    "FilestoreTier",
    "Flaw",
    "Form",
    "Front",
    "Gateway",
    "Guardrail",
    "GuardrailKind",
    "Guess",
    "ImageBuilds",
    "ImageCache",
    "Images",
    "KvCacheDtype",
    "Layer",
    "Maintenance",
    "Model",
    "Monitoring",
    "NodePools",
    "Phase",
    "Pictures",
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
    "Rung",
    "Serving",
    "Severity",
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
    "TokenIssuer",
]
