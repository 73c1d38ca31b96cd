"""Rules about GKE versions: a region's channel must offer the features that its models use."""

from collections.abc import Iterator

from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join
from gke_inference.catalogue.versions import gke_minimum, minor_of, version_key
from infra.plan import Plan, resolve
from infra.plan.gke_version import FROM_ZERO, asked, known_limit, needed
from infra.stack import Layer, Platform


def check_from_zero(platform: Platform, name: str, path: str) -> Iterator[InputError]:
    """Yield why a number of replicas cannot be 0 in a region."""
    region, least = platform.regions[name], gke_minimum(FROM_ZERO)
    limit = known_limit(region)
    if version_key(limit) >= version_key(least):
        return
    message = f"must be at least 1 in {name}: scaling from 0 needs GKE {least}"
    source = "'version'" if region.version else f"channel {region.release_channel.value}"
    yield InputError(path, message, 0, f", and {source} there goes up to {limit}")


def check_versions(plan: Plan) -> Iterator[InputError]:
    """Yield the regions whose clusters would be too old.

    Args:
        plan: A resolved stack without other problems.
    """
    for name, region in plan.regions.items():
        least, because = needed(region)
        limit = known_limit(region.settings)
        if version_key(limit) < version_key(least):
            field = "release_channel" if region.settings.version is None else "version"
            rule = f"must have GKE {least} for {because}"
            value = region.settings.version or region.settings.release_channel.value
            note = "" if region.settings.version else f", seen with {limit} at most"
            yield InputError(join("regions", name, field), rule, Bare(value), note)


def check_shared_versions(plan: Plan) -> Iterator[InputError]:
    """Yield the regions whose clusters are too old for a serving stack.

    Args:
        plan: A resolved stack without other problems.
    """
    platform = plan.platform
    if platform.layer is not Layer.SERVING:
        return
    shared = resolve(platform.model_copy(update={"layer": Layer.PLATFORM, "models": {}}))
    for name, region in plan.regions.items():
        least, because = needed(region)
        has = asked(shared.regions[name])
        if least and version_key(minor_of(least)) > version_key(minor_of(has)):
            message = f"must have GKE {least} in {name} for {because}"
            note = f": set regions.{name}.version there"
            yield InputError("platform", message, Bare(has), note)
