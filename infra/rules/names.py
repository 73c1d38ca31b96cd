"""Rules about names: lengths of derived names, and collisions between them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.names import check_name
from gke_inference.catalogue.problems import join
from gke_inference.gateway.canary import STABLE
from infra.plan import Plan
from infra.plan.backends import RELAY, pool_relay
from infra.plan.batches import SERVICE, WORKER
from infra.plan.clients import GATE
from infra.plan.front import resolve_front
from infra.plan.names import object_name, pool_name, resolve_names, version_name
from infra.plan.served import ServedModel
from infra.stack import Form, Front, Platform

_LONGEST_OBJECT: Final = 45  # Kubernetes allows 63; the gateway and the servers append suffixes
_LONGEST_CLASS: Final = 36  # node pool names have at most 40; a class of one kind appends -tpu


def check_names(platform: Platform) -> Iterator[InputError]:
    """Yield the names that the cloud or the cluster would reject."""
    names = resolve_names(platform)
    makers = {
        "cluster": names.cluster,
        "node account": names.node_account,
        "bucket": partial(names.bucket, "models"),
    }
    for region, settings in platform.regions.items():
        where = join("regions", region)
        exists = {"cluster": settings.existing.cluster, "bucket": settings.existing.bucket}
        for what, maker in makers.items():
            if exists.get(what) is not None:
                continue
            yield from _problem(where, f"gives its {what} a name that", partial(maker, region))
    for name, capacity in platform.capacity.items():
        where = join("capacity", name)
        if name.startswith(("gke", "autopilot")):
            message = "must not start with gke or autopilot, which Google reserves for its classes"
            yield InputError(where, message, name)
        if len(name) > _LONGEST_CLASS:
            yield InputError(where, f"must have at most {_LONGEST_CLASS} characters", name)
        if capacity.node_pools is not None:
            longest = pool_name(name, len(capacity.rungs))
            maker = partial(check_name, "node_pool", longest)
            yield from _problem(where, "gives its node pools a name that", maker)
    for name in platform.storage.archives:
        where = join("storage", "archives", name)
        yield from _problem(where, "gives its bucket a name that", partial(names.archive, name))
    for name in platform.pipelines:
        where = join("pipelines", name)
        maker = partial(names.pipeline_account, name)
        yield from _problem(where, "gives its service account a name that", maker)
        yield from _problem(where, "has a name that", partial(names.pipeline_bucket, name))
    if (apigee := platform.apigee()) is not None:
        for name in apigee.products:
            longest = max(platform.regions, key=len)
            maker = partial(names.apigee_product, name, longest)
            where = join("clients", "apigee", "products", name)
            yield from _problem(where, f"has in {longest} a name that", maker)
        for name in apigee.apps:
            where = join("clients", "apigee", "apps", name)
            yield from _problem(where, "has a name that", partial(names.apigee_app, name))
    yield from _check_models(platform)
    if platform.gateway.front is Front.GLOBAL:
        for name in resolve_front(platform).paths:
            maker = partial(names.front_of, name)
            yield from _problem(join("models", name), "gives its backends a name that", maker)


def _check_models(platform: Platform) -> Iterator[InputError]:
    owners: dict[str, str] = {}
    taken = dict(_programs(platform))
    for name in platform.models:
        where = join("models", name)
        as_object = object_name(name)
        if as_object in taken:
            yield InputError(where, f"must not be the name of {taken[as_object]}", name)
        if not as_object[0].isalpha():
            yield InputError(where, "must begin with a letter", name)
        if len(as_object) > _LONGEST_OBJECT:
            yield InputError(where, f"must have at most {_LONGEST_OBJECT} characters", name)
        if as_object in owners:
            message = f"must differ from {owners[as_object]!r} by more than punctuation"
            yield InputError(where, message, name)
        owners.setdefault(as_object, name)
    for name, model in platform.models.items():
        if model.canary is None:
            continue
        where = join("models", name, "canary", "version")
        if model.canary.version == STABLE:
            yield InputError(where, f"must not be {STABLE!r}, which names the other version")
        whole = version_name(name, model.canary.version)
        as_object = object_name(whole)
        if len(as_object) > _LONGEST_OBJECT:
            message = f"must result in a name of at most {_LONGEST_OBJECT} characters"
            yield InputError(where, message, whole)
        if as_object in owners:
            message = "must result in a unique name"
            yield InputError(where, message, whole, ", the name of a model or version")
        owners.setdefault(as_object, whole)


def check_derived_names(plan: Plan) -> Iterator[InputError]:
    """Yield the models whose objects would be those of another model, or be counted as its."""
    for region in plan.regions.values():
        for one in region.served:
            for other in region.served:
                if other is not one and (problem := _mistaken(one, other)) is not None:
                    yield problem
                    return


def _mistaken(one: ServedModel, other: ServedModel) -> InputError | None:
    """Return why a model must have another name beside a second one, or None if it need not."""
    words = ("models", one.name) if one.version is None else ("models", one.served_name, "canary")
    where, name = join(*words), one.object_name
    if name in {f"{other.object_name}-picker", f"{other.object_name}-next-picker"}:
        return InputError(where, f"must not be the name of a picker of {other.name!r}", name)
    own = {each for role in one.roles for each in role.deployments.values()}
    for role in other.roles:
        for kind, taken in role.deployments.items():
            # the scheduler's series name pods, of which the first Deployment's are counted; those
            # of a group have only a number after its name
            is_first = role.form is Form.PAIRED and kind != role.filling_kind
            is_counted = is_first and not role.is_group(kind)
            is_prefix = taken != other.object_name and f"{name}-".startswith(f"{taken}-")
            if is_prefix and (is_counted or taken in own):
                rule = f"must not begin with {taken!r}, the name of a Deployment of {other.name!r}"
                return InputError(where, rule, name)
    return None


def _programs(platform: Platform) -> Iterator[tuple[str, str]]:
    """Yield the names of the platform's own programs in the models' namespace."""
    if platform.gated_clients() is not None:
        yield GATE, "the gate of clients"
    if platform.backends:
        yield RELAY, "the relay of backends"
    for name, model in platform.models.items():
        if model.has_pool_relay:
            yield pool_relay(object_name(name)), f"the relay in the pool of {name}"
    for name in platform.guardrails:
        yield f"guardrail-{name}", f"guardrails.{name}"
    if platform.batches is not None:
        yield SERVICE, "the service of batches"
        yield WORKER, "the workers of batches"
    for name in platform.streams:
        yield f"stream-{name}", f"the workers of streams.{name}"


def _problem(where: str, words: str, name: Callable[[], str]) -> Iterator[InputError]:
    try:
        name()
    except ValueError as error:
        yield InputError(where, f"{words} {error}")
