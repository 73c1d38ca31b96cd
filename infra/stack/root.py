"""The whole of a stack: everything a user can say about a platform."""

from collections.abc import Mapping

from pydantic import Field

from infra.stack.budget import Budget
from infra.stack.capacity import Capacity
from infra.stack.fields import ModelName, Name, ProjectId, RegionName, ShortName, StackModel
from infra.stack.gateway import Gateway
from infra.stack.images import Images
from infra.stack.models import Form, Model
from infra.stack.monitoring import Monitoring
from infra.stack.regions import Region
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
    models: dict[ModelName, Model] = Field(min_length=1)
    """Models by the name that clients ask for."""
    gateway: Gateway
    """The endpoint."""
    allow_replace: tuple[str, ...] = ()
    """Clusters, pools, buckets and disks that may be replaced or deleted, by name; what is not
    named makes the preview fail. Take the names out again afterwards."""
    budget: Budget | None = None
    """What a month may cost, with alerts; none by default."""
    images: Images | None = None
    """A repository of one's own for all images; by default they come from where they are made."""
    monitoring: Monitoring = Monitoring()
    """Metrics and alerts."""
    network_policies: bool = True
    """Whether only the gateway and the readers of metrics can reach the pods that serve; false
    where the namespace has policies of another hand."""
    protection: bool = True
    """Refuses to delete clusters and full buckets; false for stacks that come and go."""
    storage: Storage = Storage()
    """Buckets and disk images."""

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

    def form_of(self, model: Model) -> Form:
        """Return the form of a model: what it says, or what its capacity asks for."""
        if model.form is not None:
            return model.form
        return Form.PAIRED if self.capacity[model.capacity].is_mixed else Form.SINGLE
