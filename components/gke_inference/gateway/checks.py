"""Input validation of `InferenceGateway`."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pulumi

from gke_inference.base.checked import keep
from gke_inference.catalogue.engines import DEFAULT_ENGINE
from gke_inference.catalogue.input_error import InputError
from gke_inference.catalogue.load_balancing import HTTPS_PORT
from gke_inference.catalogue.pickers import GIE
from gke_inference.catalogue.problems import join
from gke_inference.intent.words import Task
from gke_inference.sizing.pickers import USUAL_PICKER, PeakLoad

from .canary import STABLE
from .llm_d_config import DRAIN_SECONDS, Routing, Sessions
from .picker import PickerSetup
from .routes import RoutedCanary, RoutedModel, RoutedNext
from .rules import check_exposure, check_hostname, check_hostnames
from .settings import PRIORITY, Exposure, PickerFailure

GATEWAY_CLASSES = {
    Exposure.EXTERNAL: "gke-l7-regional-external-managed",
    Exposure.INTERNAL: "gke-l7-rilb",
}
FAILURE_MODES = {PickerFailure.CLOSED: "FailClose", PickerFailure.OPEN: "FailOpen"}
_ADAPTER_TASKS = (Task.GENERATE, Task.IMAGE, Task.VIDEO)
_HTTP_PORT = 80
_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
# Header matches are exact: values must be printable, without spaces or wildcards.
_PATH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
_SERVED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")
# The 63 characters of a Service name minus the longest suffix (`-body-router`, `-interactive`).
_MAX_NAME = 51


def listener_port(args: Mapping[str, Any]) -> int:
    """Return the port of the listener: as set, otherwise 443 with a certificate and 80 without."""
    default = _HTTP_PORT if args.get("certificate") is None else HTTPS_PORT
    return args.get("port", default)


def checked_gateway(args: Mapping[str, Any]) -> list[RoutedModel]:
    """Return the models of an `InferenceGateway` with their defaults.

    Raises:
        pulumi.InputPropertyError: An argument contradicts another.
    """
    keep(_problems(args))
    if not args["models"] and not args.get("route_sources"):
        _refuse("models", "must have at least one model, got none")
    return checked_models(args)


def _problems(args: Mapping[str, Any]) -> Iterator[InputError]:
    exposure, certificate = args["exposure"], args.get("certificate")
    yield from check_exposure(
        "",
        exposure,
        requests_per_minute=args.get("requests_per_minute"),
        global_access=args.get("global_access", False),
    )
    if bool(args.get("asked_models")) is not bool(args.get("asked_gate")):
        yield InputError("asked_gate", "must be set with asked_models, and not without them")
    if exposure is Exposure.INTERNAL and args.get("subnetwork") is None:
        yield InputError("subnetwork", "is required when exposure is internal")
    yield from check_hostname("", args.get("hostname"), certificate)
    sources: list[Mapping[str, Any]] = args.get("route_sources", [])
    for at, source in enumerate(sources):
        where = join("route_sources", at)
        if source["namespace"] == args["namespace"]:
            path = join(where, "namespace")
            yield InputError(path, "must not be the Gateway's", args["namespace"])
        yield from check_hostname(where, source.get("hostname"), certificate)
    hosts = {
        join("route_sources", at, "hostname"): source.get("hostname")
        for at, source in enumerate(sources)
    }
    yield from check_hostnames({"hostname": args.get("hostname")}, hosts)


def checked_models(args: Mapping[str, Any]) -> list[RoutedModel]:
    """Return the models behind a Gateway with their defaults.

    Raises:
        pulumi.InputPropertyError: An argument contradicts another.
    """
    _named("gatewayName", args["gateway_name"])
    pickers: Mapping[str, Any] = args.get("pickers", {})
    _check_pickers(args, pickers)
    models = [_model(f"models[{at}]", each, pickers) for at, each in enumerate(args["models"])]
    _check_fairness(args, models)
    seconds = [each.pool_name for model in models for each in (model.canary, model.next) if each]
    _unique("poolName", [*(model.pool_name for model in models), *seconds])
    _unique("modelName", [name for model in models for name in model.served_names])
    return models


def lines_of(args: Mapping[str, Any]) -> list[str]:
    """Return the lines of the pickers behind a gateway."""
    pickers: Mapping[str, Any] = args.get("pickers", {})
    following = pickers.get("next")
    return [pickers.get("line", GIE), *([] if following is None else [following["line"]])]


def peak_load(args: Mapping[str, Any]) -> PeakLoad | None:
    """Return the load that the arguments of a model state."""
    peak: Mapping[str, Any] | None = args.get("peak")
    return None if peak is None else PeakLoad(**peak)


def _check_pickers(args: Mapping[str, Any], pickers: Mapping[str, Any]) -> None:
    """Refuse settings of one line with the other, and a second picker beside a canary."""
    lines = lines_of(args)
    if "drain_seconds" in pickers and set(lines) == {GIE}:
        _refuse("pickers.drainSeconds", f"needs line 'llm-d-router', got {GIE!r}")
    if "max_queued" in pickers and args.get("fairness_wait_seconds") is None:
        _refuse("pickers.maxQueued", "needs 'fairnessWaitSeconds': without it, nothing waits")
    orders = pickers.get("orders_sessions", False)
    if orders and args.get("fairness_wait_seconds") is None:
        _refuse("pickers.ordersSessions", "needs 'fairnessWaitSeconds': without it, nothing waits")
    for at, model in enumerate(args["models"]):
        if "canary" in model and pickers.get("next") is not None:
            _refuse(f"models[{at}].canary", "must not be set with 'pickers.next'")
        if model.get("routing") and lines[0] == GIE:
            _refuse(f"models[{at}].routing", f"needs line 'llm-d-router', got {GIE!r}")
        if orders and model.get("routing", {}).get("predicts_latency", False):
            rule = (
                "must be false with 'pickers.ordersSessions', which sets the header that it reads"
            )
            _refuse(f"models[{at}].routing.predictsLatency", rule)


def _check_fairness(args: Mapping[str, Any], models: list[RoutedModel]) -> None:
    seconds = args.get("fairness_wait_seconds")
    if seconds is None:
        return
    for at, model in enumerate(models):
        if model.has_roles:
            where = f"models[{at}].prefillThresholdTokens"
            _refuse(
                where, f"must not be set with 'fairnessWaitSeconds', got {model.threshold_tokens}"
            )


def _setup(
    where: str, args: Mapping[str, Any], line: str, pickers: Mapping[str, Any]
) -> PickerSetup:
    """Return line, routing and size of a model's picker. Only its new line has routing."""
    load, routing = peak_load(args), args.get("routing", {})
    resources = USUAL_PICKER if load is None else load.picker()
    if line == GIE:
        return PickerSetup(resources=resources)
    header = routing.get("session_header")
    predicts = routing.get("predicts_latency", False)
    if predicts and args.get("prefill_threshold_tokens") is not None:
        rule = "must be false with 'prefillThresholdTokens'"
        _refuse(f"{where}.routing.predictsLatency", rule)
    return PickerSetup(
        line=line,
        resources=resources,
        routing=Routing(
            drain_seconds=pickers.get("drain_seconds", DRAIN_SECONDS),
            predicts_latency=predicts,
            sessions=None
            if header is None
            else Sessions(header, routing.get("session_idle_seconds", 300)),
        ),
    )


def _next(where: str, args: Mapping[str, Any], pickers: Mapping[str, Any]) -> RoutedNext | None:
    found: Mapping[str, Any] | None = pickers.get("next")
    if found is None or args.get("task", Task.GENERATE) is not Task.GENERATE:
        return None
    name = f"{args['pool_name']}-next"
    _named(f"{where}.poolName", name)
    setup = _setup(where, args, found["line"], pickers)
    return RoutedNext(setup, found.get("percent", 0), name)


def _model(where: str, args: Mapping[str, Any], pickers: Mapping[str, Any]) -> RoutedModel:
    task: Task = args.get("task", Task.GENERATE)
    _named(f"{where}.poolName", args["pool_name"])
    threshold = args.get("prefill_threshold_tokens")
    if threshold is not None and task is not Task.GENERATE:
        _refuse(f"{where}.prefillThresholdTokens", f"needs task 'generate', got '{task}'")
    model = RoutedModel(
        adapters=tuple(args.get("adapters", [])),
        canary=_canary(f"{where}.canary", args.get("canary")),
        engine=args.get("engine", DEFAULT_ENGINE),
        grpc_port=args.get("grpc_port"),
        further_models=tuple(args.get("further_models", [])),
        has_live_adapters=args.get("has_live_adapters", False),
        is_picked=task is Task.GENERATE,
        is_predictive=task is Task.PREDICT,
        model_name=args["model_name"],
        pool_name=args["pool_name"],
        priority=args.get("priority", PRIORITY),
        selector=dict(args["selector"]),
        next=_next(where, args, pickers),
        setup=_setup(where, args, pickers.get("line", GIE), pickers),
        target_port=args["target_port"],
        threshold_tokens=threshold,
        timeout_seconds=args["timeout_seconds"],
    )
    if model.has_live_adapters and (model.canary is not None or task not in _ADAPTER_TASKS):
        what = "a canary" if model.canary is not None else f"task '{task}'"
        _refuse(f"{where}.hasLiveAdapters", f"must be false with {what}")
    if model.is_predictive and not _PATH_NAME.fullmatch(model.model_name):
        _refuse(
            f"{where}.modelName",
            "must be letters, digits and any of '._:-' with task 'predict', got"
            f" {model.model_name!r}",
        )
    if model.grpc_port is not None and not model.is_predictive:
        _refuse(f"{where}.grpcPort", f"needs task 'predict', got '{task}'")
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
    if args["version"] == STABLE or not _SERVED_NAME.fullmatch(args["version"]):
        _refuse(
            f"{where}.version",
            f"must be at most 128 letters, digits and any of '._:/-', and not {STABLE!r},"
            f" got {args['version']!r}",
        )
    return RoutedCanary(
        engine=args.get("engine"),
        percent=args.get("percent", 0),
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


def _refuse(path: str, reason: str) -> None:
    raise pulumi.InputPropertyError(path, reason)
