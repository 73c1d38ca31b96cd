"""The typed form of one stack file: what a user may write under `gke-inference:platform`."""

from infra.stack.budget import Budget, Covers
from infra.stack.capacity import Accelerator, Capacity, NodePools, Provisioning, Rung
from infra.stack.clients import Clients, ClientTeam, Counters, Priority, StoreNodes, TokenIssuer
from infra.stack.engines import (
    Engine,
    EngineSettings,
    Guess,
    KvCacheDtype,
    Quantization,
    Speculative,
)
from infra.stack.existing import Existing, ExistingInRegion, ExistingSubnet
from infra.stack.fields import BootDisk
from infra.stack.front import Front, Publish
from infra.stack.gateway import Dns, Exposure, Gateway
from infra.stack.images import Attestation, Flaw, ImageBuilds, Images
from infra.stack.layers import Chips, Layer, Serving, Team
from infra.stack.models import (
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
from infra.stack.storage import ImageCache, Storage

__all__ = [
    "Accelerator",
    "Attestation",
    "BootDisk",
    "Budget",
    "Canary",
    "Capacity",
    "Chips",
    "ClientTeam",
    "Clients",
    "ClusterMode",
    "ClusterSpread",
    "Counters",
    "Covers",
    "Day",
    "Disk",
    "Dns",
    "Engine",
    "EngineSettings",
    "Existing",
    "ExistingInRegion",
    "ExistingSubnet",
    "Exposure",
    "Flaw",
    "Form",
    "Front",
    "Gateway",
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
    "Pictures",
    "Platform",
    "Priority",
    "Provisioning",
    "Publish",
    "Quantization",
    "Ranges",
    "Receiver",
    "ReceiverKind",
    "Region",
    "ReleaseChannel",
    "Replicas",
    "Rung",
    "Serving",
    "Severity",
    "Size",
    "Slo",
    "Spanning",
    "Speculative",
    "Storage",
    "StoreNodes",
    "SystemPool",
    "Task",
    "Team",
    "TokenIssuer",
]
