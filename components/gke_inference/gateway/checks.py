"""Input validation of `InferenceGateway`."""

import re
from collections.abc import Mapping
from typing import Any

import pulumi

from gke_inference.base.inputs import whole
from gke_inference.catalogue.engines import engine_names
from gke_inference.catalogue.load_balancing import CLIENT_OF_A_GATEWAY, HTTPS_PORT

from .canary import STABLE
from .routes import PATHS_BY_TASK, RoutedCanary, RoutedModel

GATEWAY_CLASSES = {
    "external": "gke-l7-regional-external-managed",
    "internal": "gke-l7-rilb",
}
FAILURE_MODES = {"closed": "FailClose", "open": "FailOpen"}
LONGEST_WAIT_SECONDS = 9
"""Longest time that a request may wait in a picker. The longest documented timeout of a load
balancer's callout is 10 seconds, and whether it applies to pickers is not documented
(docs.cloud.google.com/service-extensions/docs/quotas)."""
_TASKS = tuple(sorted(PATHS_BY_TASK))
_ADAPTER_TASKS = ("generate", "image")
MAX_TIMEOUT_SECONDS = 3600
"""Longest that a request to a model may take, streams included."""
_HTTP_PORT = 80
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Header matches are exact: values must be printable, without spaces or wildcards.
_SERVED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
# The 63 characters of a Service name minus the longest suffix (`-body-router`, `-interactive`).
_MAX_NAME = 51


def listener_port(args: Mapping[str, Any]) -> int:
    """Return the port of the listener: as set, otherwise 443 with a certificate and 80 without."""
    default = _HTTP_PORT if args.get("certificate") is None else HTTPS_PORT
    return int(args.get("port", default))


def checked_gateway(args: Mapping[str, Any]) -> list[RoutedModel]:
    """Return the models of an `InferenceGateway` with their defaults.

    Raises:
        pulumi.InputPropertyError: A plain argument is out of range or contradicts another.
    """
    _within("port", listener_port(args), 1, 65_535)
    _within("requestsPerMinute", int(args.get("requests_per_minute", 1)), 1, 1_000_000)
    if args["exposure"] == "internal" and args.get("requests_per_minute") is not None:
        _refuse("requestsPerMinute", "must not be set when exposure is 'internal'")
    if args["exposure"] != "internal" and args.get("global_access", False):
        _refuse("globalAccess", f"must not be set when exposure is {args['exposure']!r}")
    if args["exposure"] == "internal" and args.get("subnetwork") is None:
        _refuse("subnetwork", "must be set when exposure is 'internal', got nothing")
    if args.get("hostname") is not None and args.get("certificate") is None:
        _refuse("hostname", f"needs 'certificate', got {args['hostname']!r} without one")
    _check_sources(args)
    if not args["models"] and not args.get("route_sources"):
        _refuse("models", "must have at least one model, got none")
    return checked_models(args)


def _check_sources(args: Mapping[str, Any]) -> None:
    sources = args.get("route_sources", [])
    hosts = [args.get("hostname"), *(source.get("hostname") for source in sources)]
    for at, source in enumerate(sources):
        where = f"routeSources[{at}]"
        if source["namespace"] == args["namespace"]:
            _refuse(f"{where}.namespace", f"must not be the Gateway's, got {args['namespace']!r}")
        host = source.get("hostname")
        if host is not None and args.get("certificate") is None:
            _refuse(f"{where}.hostname", f"needs 'certificate', got {host!r} without one")
        if host is not None and hosts.count(host) > 1:
            _refuse(f"{where}.hostname", f"must be a unique hostname, got {host!r}")


def checked_models(args: Mapping[str, Any]) -> list[RoutedModel]:
    """Return the models behind a Gateway with their defaults.

    Raises:
        pulumi.InputPropertyError: A plain argument is out of range or contradicts another.
    """
    _one_of("exposure", args["exposure"], GATEWAY_CLASSES)
    _one_of("pickerFailure", args.get("picker_failure", "open"), FAILURE_MODES)
    _named("gatewayName", args["gateway_name"])
    _within("pickerReplicas", int(args.get("picker_replicas", 1)), 1, 5)
    hops_of(args)
    _within("routerReplicas", int(args.get("router_replicas", 2)), 1, 20)
    percent = args.get("log_percent", 100)
    if not 0 <= percent <= 100:
        _refuse("logPercent", f"must be 0 to 100, got {percent}")
    models = [_model(f"models[{at}]", each) for at, each in enumerate(args["models"])]
    _check_fairness(args, models)
    canaries = [model.canary.pool_name for model in models if model.canary is not None]
    _unique("poolName", [*(model.pool_name for model in models), *canaries])
    _unique("modelName", [name for model in models for name in model.served_names])
    return models


def _check_fairness(args: Mapping[str, Any], models: list[RoutedModel]) -> None:
    seconds = args.get("fairness_wait_seconds")
    if seconds is None:
        return
    _within("fairnessWaitSeconds", int(seconds), 1, LONGEST_WAIT_SECONDS)
    for at, model in enumerate(models):
        if model.has_roles:
            where = f"models[{at}].prefillThresholdTokens"
            _refuse(
                where, f"must not be set with 'fairnessWaitSeconds', got {model.threshold_tokens}"
            )


def _model(where: str, args: Mapping[str, Any]) -> RoutedModel:
    task = args.get("task", "generate")
    _one_of(f"{where}.task", task, _TASKS)
    _one_of(f"{where}.engine", args.get("engine", "vllm"), engine_names())
    _named(f"{where}.poolName", args["pool_name"])
    _within(f"{where}.targetPort", int(args["target_port"]), 1, 65_535)
    _within(f"{where}.timeoutSeconds", int(args["timeout_seconds"]), 1, MAX_TIMEOUT_SECONDS)
    _within(f"{where}.priority", int(args.get("priority", 10)), 0, 1_000_000)
    threshold = args.get("prefill_threshold_tokens")
    if threshold is not None:
        _within(f"{where}.prefillThresholdTokens", int(threshold), 0, 10_000_000)
        if task != "generate":
            _refuse(f"{where}.prefillThresholdTokens", f"needs task 'generate', got {task!r}")
    if not args["selector"]:
        _refuse(f"{where}.selector", "must have at least one label, got none")
    model = RoutedModel(
        adapters=tuple(args.get("adapters", [])),
        canary=_canary(f"{where}.canary", args.get("canary")),
        engine=args.get("engine", "vllm"),
        further_models=tuple(args.get("further_models", [])),
        has_live_adapters=bool(args.get("has_live_adapters", False)),
        is_picked=task == "generate",
        model_name=args["model_name"],
        pool_name=args["pool_name"],
        priority=int(args.get("priority", 10)),
        selector=dict(args["selector"]),
        target_port=int(args["target_port"]),
        threshold_tokens=None if threshold is None else int(threshold),
        timeout_seconds=int(args["timeout_seconds"]),
    )
    if model.has_live_adapters and (model.canary is not None or task not in _ADAPTER_TASKS):
        what = "a canary" if model.canary is not None else f"task {task!r}"
        _refuse(f"{where}.hasLiveAdapters", f"must be false with {what}")
    for name in model.served_names:
        if not _SERVED_NAME.fullmatch(name):
            _refuse(
                f"{where}.modelName",
                f"must be at most 128 letters, digits and any of '._:/-', got {name!r}",
            )
    return model


def _canary(where: str, args: Mapping[str, Any] | None) -> RoutedCanary | None:
    if args is None:
        return None
    _named(f"{where}.poolName", args["pool_name"])
    if "engine" in args:
        _one_of(f"{where}.engine", args["engine"], engine_names())
    _within(f"{where}.percent", int(args.get("percent", 0)), 0, 100)
    if not args["selector"]:
        _refuse(f"{where}.selector", "must have at least one label, got none")
    if args["version"] == STABLE or not _SERVED_NAME.fullmatch(args["version"]):
        _refuse(
            f"{where}.version",
            f"must be at most 128 letters, digits and any of '._:/-', and not {STABLE!r},"
            f" got {args['version']!r}",
        )
    return RoutedCanary(
        engine=args.get("engine"),
        percent=int(args.get("percent", 0)),
        pool_name=args["pool_name"],
        selector=dict(args["selector"]),
        version=args["version"],
    )


def _unique(key: str, names: list[str]) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        _refuse("models", f"must each have their own {key}, got {repeated[0]!r} twice")


def _named(path: str, value: str) -> None:
    if len(value) > _MAX_NAME or not _NAME.fullmatch(value):
        _refuse(
            path,
            f"must be at most {_MAX_NAME} lowercase letters, digits and dashes"
            f" that start with a letter, got {value!r}",
        )


def hops_of(args: object) -> int:
    """Return `forwarded_hops`: the client's position in X-Forwarded-For, counted from the end.

    Raises:
        pulumi.InputPropertyError: It is out of range.
    """
    return whole(args, "forwarded_hops", CLIENT_OF_A_GATEWAY, least=1, most=10)


def _within(path: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        _refuse(path, f"must be {low} to {high}, got {value}")


def _one_of(path: str, value: str, allowed: Any) -> None:
    if value not in allowed:
        _refuse(path, f"must be one of {', '.join(sorted(allowed))}, got {value!r}")


def _refuse(path: str, reason: str) -> None:
    raise pulumi.InputPropertyError(path, reason)
