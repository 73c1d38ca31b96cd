"""Cloud Monitoring dashboards for operators."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast

import pulumi
from pulumi_gcp import monitoring
from pydantic import Field

from gke_inference.base.checked import checked
from gke_inference.base.inputs import under
from gke_inference.catalogue.engines import DEFAULT_ENGINE, EngineName
from gke_inference.catalogue.labels import MANAGED_BY
from gke_inference.catalogue.pickers import GIE, PickerLineName
from gke_inference.intent.settings import RequestSeconds
from gke_inference.personal.settings import TRAIN_SECONDS

from .dashboard_cloud import cloud_dashboard
from .dashboard_source import dashboards
from .promql import ModelFacts, Scope
from .settings import QUEUE_LIMIT, LatencyMs, QueueLimit


class ObservedModelArgs(TypedDict):
    """One model in dashboards and alerts."""

    deployments: Annotated[list[str], Field(min_length=1)]
    """Names of its accelerator Deployments, which are those of its autoscalers."""
    job: str
    """Name of its PodMonitoring, the label `job` of its series."""
    engine: NotRequired[EngineName]
    """Engine of its replicas. Default: `vllm`."""
    clusters: NotRequired[list[str]]
    """Clusters it runs in, which alerts distinguish. Default: all clusters as one."""
    has_kv_tiers: NotRequired[bool]
    """Whether its engines keep KV cache in tiers below the accelerator's memory. Default: false."""
    has_own_chips: NotRequired[bool]
    """Whether several models of a server have chips of their own. Default: false."""
    has_picker: NotRequired[bool]
    """Whether a picker named `JOB-picker` chooses its replicas. Default: true."""
    holds_requests: NotRequired[bool]
    """Whether requests wait in relays while none of its replicas is ready. Default: false, unless
    it is from zero."""
    is_from_zero: NotRequired[bool]
    """Whether it has no replica while nobody needs it: none is then no reason for an alert.
    Default: false."""
    picker_limit_mib: NotRequired[Annotated[int, Field(ge=1)]]
    """Memory limit of its picker, which a chart shows and an alert watches. Default: neither."""
    roles: NotRequired[list[str]]
    """Values of the label `role` of its series, such as `decode` and `prefill`, which alerts
    distinguish. Default: none, all replicas have the same role."""
    prices: NotRequired[dict[str, float]]
    """US dollars per hour of one replica, by Deployment. Default: no cost is shown."""
    predict_seconds: NotRequired[RequestSeconds]
    """Maximum time of a prediction, of a predictive model: an alert fires when the mean exceeds
    half of it. Default: no such alert."""
    tpot_p95_ms: NotRequired[LatencyMs]
    """Promised time per output token, 95th percentile. Default: no promise."""
    ttft_p95_ms: NotRequired[LatencyMs]
    """Promised time to first token, 95th percentile. Default: no promise."""


class DashboardsArgs(TypedDict):
    """Inputs of `Dashboards`."""

    exposure: Literal["external", "internal"]
    """From where clients connect."""
    models: Annotated[list[ObservedModelArgs], Field(min_length=1)]
    """Models, each with its engines, picker and promised latency."""
    namespace: str
    """Namespace of the engines and pickers."""
    project: pulumi.Input[str]
    """Project that stores the metrics."""
    title: str
    """Prefix of each dashboard's name, such as the environment's name."""
    backends: NotRequired[bool]
    """Whether `ModelBackends` named `relay` are in the namespace. Default: false."""
    body_router: NotRequired[str]
    """Name of the body router of an `InferenceGateway` in the namespace. Default: none."""
    batches: NotRequired[bool]
    """Whether a `BatchService` is in the namespace. Default: false."""
    clients: NotRequired[bool]
    """Whether a `ClientGate` named `client-gate` is in the namespace. Default: false."""
    front: NotRequired[bool]
    """Whether a `GlobalFront` is before the gateways. Default: false."""
    guards: NotRequired[bool]
    """Whether that gate calls guards (`NemoGuardrails`). Default: false."""
    has_next_picker: NotRequired[bool]
    """Whether each model has a second picker, `JOB-next-picker`. Default: false."""
    picker: NotRequired[PickerLineName]
    """Line of the pickers whose metrics are shown. Default: `gie`."""
    queue_clusters: NotRequired[list[str]]
    """Clusters with job queues (`QueueOperator` with `metrics_namespace`). Default: none."""
    queue_limit: NotRequired[QueueLimit]
    """Waiting requests per replica considered too many, a line in a chart. Default: 20."""


class Dashboards(pulumi.ComponentResource):
    """Dashboards for service, engines, gateway and capacity, for images, clients and job queues.

    Image models, clients and queues have theirs only where a platform has them.

    They cover every cluster of a project.

    They are rendered from data/dashboards of this package, like the files for Grafana.
    """

    names: pulumi.Output[list[str]]
    """Resource names of the dashboards, `projects/NUMBER/dashboards/ID`."""

    def __init__(
        self, name: str, args: DashboardsArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("gke-inference:index:Dashboards", name, {}, opts)
        args = checked(DashboardsArgs, args)
        scope = scope_of(args["models"], args["namespace"], args)
        made = [
            monitoring.Dashboard(
                f"{name}-{page.name}",
                dashboard_json=json.dumps(
                    cloud_dashboard(
                        page, f"{args['title']}: {page.title}", {"managed-by": MANAGED_BY}
                    ),
                    sort_keys=True,
                ),
                project=args["project"],
                opts=under(self, was=None if page.was is None else f"{name}-{page.was}"),
            )
            for page in dashboards(scope)
        ]
        self.names = pulumi.Output.all(*[page.id for page in made]).apply(_strings)
        self.register_outputs({"names": self.names})


def scope_of(models: list[ObservedModelArgs], namespace: str, settings: object) -> Scope:
    """Return the scope of dashboards and alerts, whose inputs are checked."""
    given = cast("Mapping[str, Any]", settings)
    return Scope(
        cost_limit_usd_per_hour=given.get("cost_limit_usd_per_hour"),
        body_router=given.get("body_router"),
        exposure=given["exposure"],
        models=tuple(map(_facts, models)),
        has_batches=bool(given.get("batches", False)),
        has_backends=bool(given.get("backends", False)),
        has_clients=bool(given.get("clients", False)),
        has_front=bool(given.get("front", False)),
        has_guards=bool(given.get("guards", False)),
        has_fallbacks=bool(given.get("fallbacks", False)),
        kafka_streams=tuple(sorted(given.get("kafka_streams") or ())),
        hostname=given.get("hostname"),
        has_next_picker=bool(given.get("has_next_picker", False)),
        namespace=namespace,
        picker=given.get("picker", GIE),
        personal=given.get("personal_images"),
        personal_train_seconds=given.get("personal_train_seconds", TRAIN_SECONDS),
        queue_clusters=tuple(sorted(given.get("queue_clusters") or ())),
        subscriptions=tuple(sorted(given.get("subscriptions") or ())),
        queue_limit=given.get("queue_limit", QUEUE_LIMIT),
    )


def _facts(model: ObservedModelArgs) -> ModelFacts:
    return ModelFacts(
        clusters=tuple(model.get("clusters", [])),
        deployments=tuple(model["deployments"]),
        engine=model.get("engine", DEFAULT_ENGINE),
        has_kv_tiers=bool(model.get("has_kv_tiers", False)),
        has_own_chips=bool(model.get("has_own_chips", False)),
        holds_requests=bool(model.get("holds_requests", False)),
        is_from_zero=bool(model.get("is_from_zero", False)),
        is_picked=bool(model.get("has_picker", True)),
        job=model["job"],
        picker_limit_mib=model.get("picker_limit_mib"),
        predict_seconds=model.get("predict_seconds"),
        prices=dict(model.get("prices", {})),
        roles=tuple(model.get("roles", [])),
        tpot_p95_ms=model.get("tpot_p95_ms"),
        ttft_p95_ms=model.get("ttft_p95_ms"),
    )


def _strings(values: list[str]) -> list[str]:
    return [str(value) for value in values]
