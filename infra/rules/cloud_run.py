"""Rules about models on Cloud Run: regions, names, and what an instance can serve."""

from collections.abc import Iterator

from gke_inference.catalogue.cloud_run import run_limits
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.problems import join, one_of
from gke_inference.intent.cloud_run import run_problems
from infra.plan.cloud_run import deployment_regions, deployments
from infra.plan.names import Names, resolve_names
from infra.stack import Layer, Platform


def check_cloud_run(platform: Platform) -> Iterator[InputError]:
    """Yield the problems of the services that a platform creates."""
    if platform.layer is not Layer.ALL:
        return  # `check_backends` refuses their backends
    names = resolve_names(platform)
    for name, at, deployed, served in deployments(platform):
        backend = platform.backends[name]
        path = ("backends", name, "targets", at) if backend.targets else ("backends", name)
        where = join(*path, "deploy")
        unknown = [each for each in deployed.regions or () if each not in platform.regions]
        if unknown:
            yield one_of(join(where, "regions"), unknown[0], platform.regions)
            continue
        found: dict[InputError, None] = {}
        for region in deployment_regions(platform, deployed):
            seconds = backend.timeout_seconds
            found.update(dict.fromkeys(run_problems(served, deployed, seconds, region)))
        for problem in found:
            yield problem.at(f"{where}.{problem.path}")
        yield from _check_names(platform, names, where, name, at)


def _check_names(
    platform: Platform, names: Names, where: str, backend: str, at: int
) -> Iterator[InputError]:
    """Yield a name that Google refuses; that of a service is also part of its URL."""
    most = run_limits().url_label
    try:
        service = names.run_service(backend, at)
        names.run_account(backend, at, "")
    except ValueError as error:
        yield InputError(where, f"gives its service or its account a name that {error}")
        return
    label = f"{service}-{platform.project_number}"
    if len(label) > most:
        rule = f"must give its service a name with at most {most} characters in its URL"
        yield InputError(where, rule, label)
