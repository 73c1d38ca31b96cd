"""Rules across the parts of a stack. Rules on single fields are in their types."""

from collections.abc import Iterator
from itertools import chain

from gke_inference.catalogue.input_error import InputError
from infra.plan import capacity_by_region, resolve
from infra.rules.backends import check_backends
from infra.rules.batch_engines import check_batch_engines
from infra.rules.batches import check_batches
from infra.rules.budget import check_amount, check_budget
from infra.rules.capacity import check_capacity
from infra.rules.clients import check_clients
from infra.rules.cloud_run import check_cloud_run
from infra.rules.device_claims import check_claims
from infra.rules.disaggregation import check_disaggregation
from infra.rules.engines import check_engines
from infra.rules.existing import check_existing
from infra.rules.front import check_front
from infra.rules.gateway import check_gateway
from infra.rules.guardrails import check_guardrails
from infra.rules.images import check_arm, check_attested, check_images, check_pinned, check_ray
from infra.rules.interfaces import check_interfaces
from infra.rules.layers import check_layer, check_share
from infra.rules.models import check_models
from infra.rules.monitoring import check_monitoring
from infra.rules.names import check_derived_names, check_names
from infra.rules.networks import check_networks, check_placement
from infra.rules.optimization import check_optimization
from infra.rules.personal import check_personal
from infra.rules.pickers import check_pickers
from infra.rules.pipelines import check_pipelines
from infra.rules.predictive import check_predictive
from infra.rules.queues import check_queues
from infra.rules.regions import check_chip_limits, check_regions, check_zones
from infra.rules.storage import check_storage
from infra.rules.streams import check_streams
from infra.rules.versions import check_shared_versions, check_versions
from infra.stack import Layer, Platform

__all__ = ["check"]


def check(platform: Platform, *, with_digests: bool = True) -> Iterator[InputError]:
    """Yield all problems across the parts of a platform, in stack order.

    Args:
        platform: The stack.
        with_digests: Whether images must have the digests that a deployment needs.
    """
    misplaced = list(check_zones(platform))
    if misplaced:
        yield from misplaced
        return  # other settings speak of zones
    by_region = capacity_by_region(platform)
    places = (check_layer(platform), check_regions(platform), check_existing(platform))
    problems = list(chain.from_iterable(places))
    if not platform.models and platform.layer is not Layer.PLATFORM:
        yield from problems
        return  # other settings refer to models, and would be wrong for the lack of them
    problems += check_capacity(platform, by_region)
    if any(".rungs[" in problem.path for problem in problems):
        yield from problems
        return  # other settings speak of rungs
    checks = (
        check_models(platform, by_region),
        check_claims(platform, by_region),
        check_engines(platform, by_region),
        check_disaggregation(platform, by_region),
        check_networks(platform, by_region),
        check_interfaces(platform, by_region),
        check_gateway(platform),
        check_pickers(platform, by_region),
        check_front(platform),
        check_backends(platform),
        check_cloud_run(platform),
        check_clients(platform),
        check_guardrails(platform),
        check_images(platform),
        check_monitoring(platform),
        check_storage(platform, by_region),
        check_streams(platform),
        check_pipelines(platform),
        check_queues(platform, by_region),
        check_batches(platform),
        check_batch_engines(platform, by_region),
        check_optimization(platform, by_region),
        check_personal(platform),
        check_predictive(platform),
        check_budget(platform),
        check_names(platform),
    )
    problems += chain.from_iterable(checks)
    yield from problems
    if not problems:
        plan = resolve(platform)
        yield from check_derived_names(plan)
        yield from check_versions(plan)
        yield from check_shared_versions(plan)
        yield from check_share(plan)
        yield from check_chip_limits(plan)
        yield from check_placement(plan)
        if with_digests:
            yield from check_pinned(plan)
            yield from check_ray(plan)
            yield from check_arm(plan)
            yield from check_attested(plan.images)
        yield from check_amount(plan)
