"""The fallback of a pool: a replica that calls a backend when the engines are at capacity.

It can also let requests wait for the first engine of a model that has none.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict, cast

import pulumi

from gke_inference.base.checked import checked, keep
from gke_inference.base.inputs import name_of, under
from gke_inference.base.manifests import (
    COMPONENT_LABEL,
    ENGINES,
    NAME_LABEL,
    SKIP_AWAIT,
    Manifest,
    labels_for,
    manifest,
    register,
    role_binding,
    scraping,
    service_account,
)
from gke_inference.catalogue.engines import DEFAULT_ENGINE, EngineName, engine
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.gateway.settings import ProxyCallersArgs
from gke_inference.settings.fields import MonthlyUsd, UsdPerMillion

from .program import document, ports_of
from .relay import COMPONENT as RELAY
from .relay import FILE, PORT, relay_pod, walls
from .rules import check_backend
from .settings import REPLICAS, AfterQueue, BackendSettings, RelayReplicas, WaitSettings

COMPONENT = "pool-fallback"
"""Value of `app.kubernetes.io/component` on its objects."""
_OF_BACKEND = (
    "after_queue",
    "backend",
    "input_usd_per_million",
    "monthly_usd",
    "output_usd_per_million",
)


class PoolFallbackArgs(TypedDict):
    """Inputs of `PoolFallback`."""

    model_name: str
    """Name that clients send in `model`."""
    namespace: str
    """Namespace of the pool."""
    pool_name: str
    """Kubernetes name of the pool, which is `app.kubernetes.io/name` of its engines' pods. The pool
    must select by that label alone."""
    relay_name: str
    """Kubernetes name of its objects."""
    service_account: str
    """Service account of the relay (`WorkloadIdentity`), which `BackendAccess` allows to call."""
    after_queue: NotRequired[AfterQueue]
    """Requests that must wait at every engine before the fallback accepts any. Required with
    `backend`."""
    backend: NotRequired[BackendSettings]
    """Backend that it calls. Required without `wait`."""
    callers: NotRequired[ProxyCallersArgs]
    """Allowed ingress in addition to the pool's picker. Default: no policy, all traffic is
    allowed."""
    engine: NotRequired[EngineName]
    """Engine of the pool, whose metrics it exports. Default: `vllm`."""
    force_usage: NotRequired[bool]
    """Whether every stream includes its token usage, for a `ClientGate` in front. Default:
    false."""
    input_usd_per_million: NotRequired[UsdPerMillion]
    """Price in US dollars per million prompt tokens. Required with `backend`."""
    monthly_usd: NotRequired[MonthlyUsd]
    """Maximum cost in US dollars per calendar month (UTC) in this cluster. Required with
    `backend`."""
    output_usd_per_million: NotRequired[UsdPerMillion]
    """Price in US dollars per million answer tokens. Required with `backend`."""
    replicas: NotRequired[RelayReplicas]
    """Replicas. Default: 2."""
    wait: NotRequired[WaitSettings]
    """How requests wait where the pool has no engine and no backend answers. Default: none waits.
    `Autoscaling` with `replicas.min` 0 starts the first engine."""


class PoolFallback(pulumi.ComponentResource):
    """Pods of a pool that are not engines, and appear full to its picker until the engines are.

    They are not part of the model: its autoscalers, disruption budget and scraping select its
    engines by labels that these pods do not have. Once their budget is spent, they are not ready
    unless requests wait in them, and the pool rejects requests as it would without them. A
    ConfigMap keeps the spending, and only they write to it.
    """

    deployment_name: pulumi.Output[str]
    """Name of the Deployment."""

    def __init__(
        self, name: str, args: PoolFallbackArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:PoolFallback", name, {}, opts)
        args = checked(PoolFallbackArgs, args)
        relay = name_of(args, "relay_name", "namespace")
        keep(_problems(args))
        made: list[pulumi.Resource] = []
        for role, obj in _objects(relay, args).items():
            logical = name if role == "deployment" else f"{name}-{role}"
            made.append(register(logical, obj, under(self, depends_on=list(made))))
        self.deployment_name = pulumi.Output.from_input(relay)
        self.register_outputs({"deploymentName": self.deployment_name})


def _problems(args: PoolFallbackArgs) -> Iterator[InputError]:
    found = cast("Mapping[str, Any]", args)
    if "backend" not in args:
        if "wait" not in args:
            yield InputError("backend", "must be set without wait", Bare("none"))
            return
        for field in _OF_BACKEND:
            if field in found:
                yield InputError(field, "must not be set without backend", found[field])
        return
    missing = [field for field in _OF_BACKEND if field not in found]
    for field in missing:
        yield InputError(field, "must be set with backend", Bare("none"))
    if missing:
        return
    yield from check_backend("backend", args["backend"])
    price = found["input_usd_per_million"]
    if not price and not found["output_usd_per_million"]:
        rule = "must be more than 0, or that of answers must"
        yield InputError("input_usd_per_million", rule, price)


def _objects(relay: str, args: PoolFallbackArgs) -> dict[str, Manifest]:
    """Return the objects by role, in creation order."""
    namespace, account = args["namespace"], args["service_account"]
    labels, selector = labels_for(relay, COMPONENT), _pod_labels(args["pool_name"])
    count = f"{relay}-spent"
    backends = {args["model_name"]: args["backend"]} if "backend" in args else {}
    longest = max(
        *(each.timeout_seconds for each in backends.values()),
        *([args["wait"].timeout_seconds] if "wait" in args else []),
        0,
    )
    settings = document(
        backends, force_usage=args.get("force_usage", False), fallback=_fallback(args, count)
    )
    pod = relay_pod(relay, account, relay, longest, has_token=True)
    for constraint in pod["topologySpreadConstraints"]:
        constraint["labelSelector"] = {"matchLabels": selector}
    callers = args.get("callers")
    ports = ports_of(backends)
    return {
        "settings": manifest("config_map", relay, namespace, labels=labels, data={FILE: settings}),
        **({"count": manifest("config_map", count, namespace, labels=labels)} if backends else {}),
        "role": manifest(
            "role", relay, namespace, labels=labels, rules=_rules(count if backends else None)
        ),
        "binding": role_binding(
            relay, relay, [service_account(account, namespace)], namespace, labels=labels
        ),
        **(
            {}
            if callers is None
            else walls(relay, namespace, selector, callers, ports, args["pool_name"])
        ),
        "budget": manifest(
            "pod_disruption_budget",
            relay,
            namespace,
            labels=labels,
            spec={"maxUnavailable": 1, "selector": {"matchLabels": selector}},
        ),
        "deployment": _deployment(relay, namespace, labels, selector, pod, args),
        "monitoring": scraping(relay, namespace, RELAY, selector),
    }


def _pod_labels(pool: str) -> dict[str, str]:
    """Return the labels of its pods: those of the pool, and a component of their own."""
    return {COMPONENT_LABEL: COMPONENT, NAME_LABEL: pool}


def _deployment(
    relay: str,
    namespace: str,
    labels: dict[str, str],
    selector: dict[str, str],
    pod: Manifest,
    args: PoolFallbackArgs,
) -> Manifest:
    """Return the Deployment. Nothing waits for it, as it is not ready once its budget is spent."""
    return manifest(
        "deployment",
        relay,
        namespace,
        annotations=SKIP_AWAIT,
        labels=labels,
        spec={
            "replicas": args.get("replicas", REPLICAS),
            "selector": {"matchLabels": selector},
            "template": {"metadata": {"labels": {**labels, **selector}}, "spec": pod},
        },
    )


def _fallback(args: PoolFallbackArgs, count: str) -> dict[str, Any]:
    """Return the program's settings for the pool."""
    names = engine(args.get("engine", DEFAULT_ENGINE)).metrics
    metrics = {
        "cache_info": names.cache_info,
        "kv_cache": names.kv_cache,
        "queue": names.queue,
        "running": names.running,
    }
    found: dict[str, Any] = {
        field: value for field, value in args.items() if field in _OF_BACKEND and field != "backend"
    }
    if "backend" in args:
        found["count"] = count
    if "wait" in args:
        wait = args["wait"]
        found["wait"] = {
            "expected_seconds": wait.expected_seconds,
            "requests": wait.requests,
            "seconds": wait.seconds,
        }
    return found | {
        "metrics": {name: metric for name, metric in metrics.items() if metric},
        "model": args["model_name"],
        "replicas": args.get("replicas", REPLICAS),
        "namespace": args["namespace"],
        "port": PORT,
        "refused_objectives": [f"{args['pool_name']}-batch"],
        "selector": {COMPONENT_LABEL: ENGINES, NAME_LABEL: args["pool_name"]},
    }


def _rules(count: str | None) -> list[Manifest]:
    """Return what its service account may do: find engines and, if it has a budget, keep count."""
    rules: list[Manifest] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    if count is not None:
        rules.append(
            {
                "apiGroups": [""],
                "resourceNames": [count],
                "resources": ["configmaps"],
                "verbs": ["get", "patch"],
            }
        )
    return rules
