"""The whole of a stack: everything a user can say about a platform."""

from collections.abc import Mapping

from pydantic import Field

from infra.stack.base.fields import (
    ModelName,
    Name,
    ProjectId,
    RegionName,
    ShortName,
    StackModel,
    StackReference,
)
from infra.stack.budget import Budget
from infra.stack.capacity import Capacity
from infra.stack.delivery import Delivery
from infra.stack.edge.backends import Backend
from infra.stack.edge.batches import Batches
from infra.stack.edge.clients import Clients
from infra.stack.edge.guardrails import Guardrail
from infra.stack.edge.streams import Stream
from infra.stack.existing import Existing
from infra.stack.gateway import Gateway
from infra.stack.images import Images
from infra.stack.layers import Layer, Team
from infra.stack.models import Form, Model
from infra.stack.monitoring import Monitoring
from infra.stack.queues import Queue
from infra.stack.regions import Maintenance, Region, usual_maintenance
from infra.stack.storage import Storage


class Platform(StackModel):
    """One platform: regions, capacity, models and the gateway in front of them."""

    project: ProjectId
    """Google Cloud project."""
    project_number: int = Field(ge=1)
    """Number of the project, part of the identities of pods."""
    environment: ShortName
    """Name of the environment, part of every name."""
    prefix: ShortName
    """First part of every name, such as the team's."""
    regions: dict[RegionName, Region] = Field(min_length=1)
    """Regions, each with one cluster."""
    capacity: dict[Name, Capacity] = Field(min_length=1)
    """Capacity by name."""
    models: dict[ModelName, Model] = Field(default_factory=dict[str, Model])
    """Models by the name that clients ask for; required, and left out where `layer` is platform."""
    gateway: Gateway
    """The endpoint."""
    allow_replace: tuple[str, ...] = ()
    """Stateful resources that may be replaced or deleted, by name: clusters, pools, buckets, disks,
    repositories, keys, and what delivers models from git, such as `repo-sync`. The engine refuses
    to lose others where `protection` is on; remove the names after the deployment."""
    backends: dict[ModelName, Backend] = Field(default_factory=dict[str, Backend])
    """Models that run elsewhere, by the name that clients ask for."""
    batches: Batches | None = None
    """Files of requests that models answer within a day, by OpenAI's Batch API; none by default."""
    budget: Budget | None = None
    """What a month may cost, with alerts; none by default."""
    clients: Clients | None = None
    """Who may call the models; required where the gateway is external. By default everybody who
    reaches it."""
    delivery: Delivery = Delivery()
    """Who applies the objects of models: Pulumi, or what reads them from git."""
    existing: Existing = Existing()
    """What all regions share, exists, and is named instead of made."""
    guardrails: dict[Name, Guardrail] = Field(default_factory=dict[str, Guardrail])
    """Guardrails by name, which `models` and teams of `clients` name. By default nothing looks at
    prompts and answers."""
    images: Images | None = None
    """A repository of one's own for all images; by default they come from where they are made."""
    layer: Layer = Layer.ALL
    """What the stack makes: the whole platform, all of it but models (`platform`), or models on the
    platform of another stack (`serving`), where only `platform`, `team`, `models` and `monitoring`
    are set."""
    monitoring: Monitoring = Monitoring()
    """Metrics and alerts."""
    mtu: int | None = Field(default=None, ge=1300, le=8896)
    """Bytes of a packet of the network, 1460 by default; 8896 suits replicas over several hosts. It
    cannot change while machines run."""
    network_policies: bool = True
    """Whether only the gateway and the readers of metrics can reach the pods that serve; false
    where the namespace has policies of another hand."""
    platform: StackReference | None = None
    """Stack of the platform, where `layer` is serving: its name, or ORGANIZATION/PROJECT/STACK."""
    protection: bool = True
    """Refuses to delete or replace stateful resources; false for stacks that come and go."""
    queues: dict[Name, Queue] = Field(default_factory=dict[str, Queue])
    """Chips that the jobs of several teams share, by name; a job waits there for its turn."""
    storage: Storage = Storage()
    """Buckets and disk images."""
    streams: dict[Name, Stream] = Field(default_factory=dict[str, Stream])
    """Messages of Pub/Sub or Kafka that models answer as there is room, by name."""
    team: Name | None = None
    """Team of the platform's `teams` whose models these are, where `layer` is serving."""
    teams: dict[Name, Team] = Field(default_factory=dict[str, Team])
    """Who shares the platform, by name, where `layer` is platform; each has a namespace."""
    unpinned_images: str | None = Field(default=None, min_length=10, max_length=300)
    """Why engines may run by tag; without a reason every environment but `dev` and `local` needs
    their digests in `images.digests`."""

    def regions_of(self, model: Model) -> Mapping[str, Region]:
        """Return the regions a model runs in, in the order of the stack."""
        if model.regions is None:
            return self.regions
        return {name: self.regions[name] for name in self.regions if name in model.regions}

    def models_in(self, region: str) -> Mapping[str, Model]:
        """Return the models that run in a region, in the order of the stack."""
        return {
            name: model for name, model in self.models.items() if region in self.regions_of(model)
        }

    def maintenance_of(self, region: str) -> Maintenance:
        """Return when GKE may upgrade the cluster of a region."""
        window = self.regions[region].maintenance
        return usual_maintenance(list(self.regions).index(region)) if window is None else window

    def holds_upgrades(self, region: str) -> bool:
        """Return whether nodes and the minor version of a region wait for the end of support."""
        held = self.regions[region].hold_upgrades
        return self.protection if held is None else held

    def form_of(self, model: Model) -> Form:
        """Return the form of a model: what it says, or what its capacity asks for."""
        if model.form is not None:
            return model.form
        return Form.PAIRED if self.capacity[model.capacity].is_mixed else Form.SINGLE
