"""The root of a stack: all settings of a platform."""

from collections.abc import Mapping

from pydantic import Field

from gke_inference.catalogue.node_networks import NodeNetwork
from gke_inference.cluster.settings import Maintenance, Mtu, usual_maintenance
from gke_inference.intent.words import Form
from gke_inference.settings import Settings
from gke_inference.settings.fields import (
    ModelName,
    Name,
    ProjectId,
    RegionName,
    ShortName,
    StackReference,
)
from infra.stack.backends import Backend
from infra.stack.batches import Batches
from infra.stack.budget import Budget
from infra.stack.capacity import Capacity
from infra.stack.clients import Apigee, Clients
from infra.stack.delivery import Delivery, DeliveryTool
from infra.stack.existing import Existing
from infra.stack.gateway import Gateway
from infra.stack.guardrails import Guardrail
from infra.stack.images import Images
from infra.stack.layers import Layer, Team
from infra.stack.models import Model
from infra.stack.monitoring import Monitoring
from infra.stack.optimization import Optimization
from infra.stack.personal import PersonalImages
from infra.stack.pipelines import Pipeline
from infra.stack.queues import Queue
from infra.stack.regions import Region
from infra.stack.rehearsal import Rehearsal
from infra.stack.storage import Storage
from infra.stack.streams import Stream


class Platform(Settings):
    """One platform: regions, capacity, models and the gateway in front of them."""

    project: ProjectId
    """Google Cloud project ID."""
    project_number: int = Field(ge=1)
    """Number of the project, which pod identities contain."""
    environment: ShortName
    """Name of the environment, part of every resource name."""
    prefix: ShortName
    """First part of every resource name, such as a team name."""
    regions: dict[RegionName, Region] = Field(min_length=1)
    """Regions by name. Each has one cluster."""
    capacity: dict[Name, Capacity] = Field(min_length=1)
    """Capacity by name."""
    models: dict[ModelName, Model] = Field(default_factory=dict[str, Model])
    """Models, by the name that clients request. Required, except where `layer` is `platform`, which
    has none."""
    gateway: Gateway
    """The inference gateway."""
    allow_replace: tuple[str, ...] = ()
    """Names of stateful resources that this deployment may replace or delete: clusters, node pools,
    buckets, disks, Filestore and Lustre instances, volume claims, repositories, keys, and resources
    that deliver models from git, such as `repo-sync`. Where `protection` is on, any other such
    replacement or deletion is refused. Remove the names after the deployment."""
    backends: dict[ModelName, Backend] = Field(default_factory=dict[str, Backend])
    """Models that run outside the platform, by the name that clients request."""
    batches: Batches | None = None
    """OpenAI-compatible Batch API: models answer files of requests within a day. Off by default."""
    budget: Budget | None = None
    """Monthly budget with alerts. None by default."""
    clients: Clients | None = None
    """Who may call the models. Required if the gateway is external; otherwise, anyone who can reach
    the gateway may call them by default."""
    delivery: Delivery = Delivery()
    """How the Kubernetes objects of models are applied: by Pulumi, or by a GitOps tool."""
    existing: Existing = Existing()
    """Existing resources that all regions share."""
    guardrails: dict[Name, Guardrail] = Field(default_factory=dict[str, Guardrail])
    """Guardrails by name, for reference in `models` and `clients.teams`. By default, prompts and
    answers are not checked."""
    images: Images | None = None
    """Artifact Registry repositories for all images. By default, images are pulled from their
    original registries."""
    layer: Layer = Layer.ALL
    """Part of the platform that this stack deploys: everything (`all`), everything except models
    (`platform`), or models on the platform of another stack (`serving`), which sets only
    `platform`, `team`, `models`, `delivery`, `monitoring` and `allow_replace`."""
    monitoring: Monitoring = Monitoring()
    """Metrics, dashboards and alerts."""
    mtu: Mtu | None = None
    """MTU of the network in bytes, 1460 by default. 8896 suits multi-host replicas. You cannot
    change it while VMs are running."""
    network_policies: bool = True
    """Whether to restrict access to serving pods to the gateway and the metrics collectors. Set to
    false if the network policies of the namespace are managed elsewhere."""
    optimization: Optimization | None = None
    """Jobs that quantize models, train adapters, and compare the results with what they replace.
    None by default."""
    personal_images: PersonalImages | None = None
    """Personalized images: users upload photos, a job trains an adapter on them, and a model
    generates images with it. Off by default."""
    pipelines: dict[Name, Pipeline] = Field(default_factory=dict[str, Pipeline])
    """Pipelines by name: a predictive model scores the events of a topic, with features from
    earlier events, in Apache Beam on Dataflow."""
    platform: StackReference | None = None
    """Stack of the platform, where `layer` is `serving`: its name, or
    ORGANIZATION/PROJECT/STACK."""
    protection: bool = True
    """Whether to refuse the replacement or deletion of stateful resources. Set to false for
    short-lived stacks."""
    queues: dict[Name, Queue] = Field(default_factory=dict[str, Queue])
    """Job queues by name. Teams share the chips of a queue, and jobs wait until chips are
    available."""
    rehearsal: Rehearsal | None = None
    """Traffic for rehearsals. With it, `verdict` reports what a change does to the rehearsed day.
    None by default."""
    storage: Storage = Storage()
    """Buckets, disk images, Filestore and Managed Lustre."""
    streams: dict[Name, Stream] = Field(default_factory=dict[str, Stream])
    """Streams by name: models answer Pub/Sub or Kafka messages as capacity permits."""
    team: Name | None = None
    """Team that owns these models, one of the platform's `teams`, where `layer` is `serving`."""
    teams: dict[Name, Team] = Field(default_factory=dict[str, Team])
    """Teams that share the platform, by name, where `layer` is `platform`. Each gets a
    namespace."""
    unpinned_images: str | None = Field(default=None, min_length=10, max_length=300)
    """Reason why engines may run by image tag. Without one, every environment except `dev` and
    `local` needs image digests in `images.digests`. Images that only this repository's builds
    create need a digest in any case before `up`."""

    def regions_of(self, model: Model) -> Mapping[str, Region]:
        """Return the regions a model runs in, in stack order."""
        if model.regions is None:
            return self.regions
        return {name: self.regions[name] for name in self.regions if name in model.regions}

    def models_in(self, region: str) -> Mapping[str, Model]:
        """Return the models that run in a region, in stack order."""
        return {
            name: model for name, model in self.models.items() if region in self.regions_of(model)
        }

    def regions_with_gateway(self) -> tuple[str, ...]:
        """Return the regions that have a gateway, of this stack or its platform, in stack order."""
        if self.layer is not Layer.ALL:
            return tuple(self.regions)
        return tuple(name for name in self.regions if self.models_in(name))

    def gated_clients(self) -> Clients | None:
        """Return the clients whose requests a gate checks: those with teams."""
        clients = self.clients
        return clients if clients is not None and clients.teams else None

    def needs_keys(self) -> bool:
        """Return whether requests need a key, of a client team or of an app in Apigee."""
        return self.gated_clients() is not None or self.apigee() is not None

    def apigee(self) -> Apigee | None:
        """Return Apigee, if it checks the clients instead of a gate."""
        return None if self.clients is None else self.clients.apigee

    def usual_replicas(self) -> int:
        """Return the replicas of a service in front of the models, unless the stack sets them."""
        return 3 if self.protection else 2

    def maintenance_of(self, region: str) -> Maintenance:
        """Return the maintenance window of the cluster in a region."""
        window = self.regions[region].maintenance
        return usual_maintenance(list(self.regions).index(region)) if window is None else window

    def holds_upgrades(self, region: str) -> bool:
        """Return whether node and minor version upgrades wait until the end of support."""
        held = self.regions[region].hold_upgrades
        return self.protection if held is None else held

    def form_of(self, model: Model) -> Form:
        """Return the form of a model: as configured, or as its capacity requires."""
        if model.form is not None:
            return model.form
        return Form.PAIRED if self.capacity[model.capacity].is_mixed else Form.SINGLE

    def kinds_of(self, queue: Queue) -> set[str]:
        """Return the kinds of hardware of a queue, `tpu` and `gpu`, on the capacity that exists."""
        names = [each.capacity for each in queue.flavors if each.capacity in self.capacity]
        return {rung.kind for name in names for rung in self.capacity[name].rungs}

    def interface_network(self) -> str | None:
        """Return `tcpx` or `tcpxo` of the first rung with one; rules refuse a stack with both."""
        words: dict[NodeNetwork | None, str]
        words = {NodeNetwork.TCPX: "tcpx", NodeNetwork.TCPXO: "tcpxo"}
        rungs = [rung for capacity in self.capacity.values() for rung in capacity.rungs]
        return next((words[rung.network] for rung in rungs if rung.network in words), None)

    def has_clusters(self) -> bool:
        """Return whether the stack has clusters and gateways, or uses those of its platform."""
        return self.layer is not Layer.SERVING

    def has_config_sync(self) -> bool:
        """Return whether the platform installs Config Sync. Its serving stacks only use it."""
        is_synced = self.delivery.applied_with is DeliveryTool.CONFIG_SYNC
        return self.layer is Layer.PLATFORM and is_synced

    def claimed_capacity(self) -> set[str]:
        """Return the names of the capacities whose chips pods claim as devices."""
        return {model.capacity for model in self.models.values() if model.form is Form.DRA}
