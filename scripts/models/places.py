"""Locations of the weights of a stack's models: a folder in the bucket of each region."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from infra.plan import Plan
from infra.plan.cloud_run import RunService
from infra.plan.names import Names
from infra.stack import Model
from workloads.engine.weights_manifest import adapter_folder, split
from workloads.transfer.errors import Refused
from workloads.transfer.versions import Home


@dataclass(frozen=True)
class Place:
    """One bucket with a model's folder, and the regions that read it."""

    home: Home
    regions: tuple[str, ...]


@dataclass(frozen=True)
class Target:
    """The weights of one model of a stack."""

    name: str
    """As in the stack; `NAME-VERSION` of a canary, `NAME/draft` of a draft model,
    `NAME/models/OTHER` of a further image model, `NAME/adapters/ADAPTER` of an adapter; of a model
    on Cloud Run, the backend, and `NAME/targets/NUMBER` of a further target."""
    version: str | None
    """Version that the stack names; None for the current one."""
    places: tuple[Place, ...]
    """In the order of the stack's regions."""
    is_adapter: bool = False
    """Whether it is a LoRA adapter instead of a model."""

    @property
    def folder(self) -> str:
        """Folder of the model in each bucket."""
        return self.places[0].home.folder

    @property
    def homes(self) -> list[Home]:
        """The folder in each bucket."""
        return [place.home for place in self.places]

    def place_of(self, region: str, option: str = "--region") -> Place:
        """Return the place from which a region reads.

        Raises:
            Refused: The model does not run there.
        """
        for place in self.places:
            if region in place.regions:
                return place
        known = ", ".join(name for place in self.places for name in place.regions)
        rule = f"must be a region of {self.name} ({known})"
        raise Refused(f"{option}: {rule}, got {region!r}")


def targets(plan: Plan) -> dict[str, Target]:
    """Return the weights of every model of a stack and of its adapters, in the stack's order.

    Those on Cloud Run are the last.
    """
    found: dict[str, Target] = {}
    folders: set[str] = set()
    for name, served in plan.models.items():
        regions = [each.region for each in served]
        model = served[0].settings
        for key, weights in _weights(name, model):
            found[key] = _target(plan.names, key, weights, regions)
        for adapter in model.adapters:
            folder = adapter_folder(split(model.weights)[0], adapter)
            if folder not in folders:  # a canary of another version reads the same adapters
                key = adapter_folder(name, adapter)
                made = _target(plan.names, key, folder, regions)
                found[key] = replace(made, is_adapter=True)
            folders.add(folder)
    services: dict[str, list[RunService]] = {}
    for service in () if plan.backends is None else plan.backends.services:
        services.setdefault(service.title, []).append(service)
    for key, every in services.items():
        weights, regions = every[0].settings.weights, [each.region for each in every]
        found[key] = _target(plan.names, key, weights, regions)
    return found


def used_versions(plans: Mapping[str, Plan]) -> dict[tuple[Home, str], list[str]]:
    """Return the versions that stacks name, with the models that use each: `MODEL of STACK`."""
    found: dict[tuple[Home, str], list[str]] = {}
    for stack, plan in plans.items():
        for target in targets(plan).values():
            if target.version is None:
                continue
            for home in target.homes:
                users = found.setdefault((home, target.version), [])
                users.append(f"{target.name} of {stack}")
    return found


def _weights(name: str, model: Model) -> Iterator[tuple[str, str]]:
    yield name, model.weights
    guess = model.settings.speculative
    if guess is not None and guess.weights is not None:
        yield f"{name}/draft", guess.weights
    for other, further in model.further_models.items():
        yield f"{name}/models/{other}", further.weights


def _target(names: Names, name: str, weights: str, regions: list[str]) -> Target:
    path, version = split(weights)
    readers: dict[Home, list[str]] = {}
    for region in regions:
        uri = names.weights(path, region)
        bucket, _, folder = uri.removeprefix("gs://").partition("/")
        readers.setdefault(Home(bucket, folder), []).append(region)
    places = tuple(Place(home, tuple(each)) for home, each in readers.items())
    return Target(name, version, places)
