"""Dashboards, alerts, receivers and a budget, once per project."""

from collections.abc import Mapping, Sequence

import pulumi

from gke_inference.catalogue.engines import DEFAULT_ENGINE
from gke_inference.catalogue.load_balancing import health_path
from gke_inference.catalogue.pickers import LLM_D_ROUTER
from gke_inference.catalogue.prices import rung_price
from gke_inference.observability.alerts import Alerts, AlertsArgs, ReceiverArgs
from gke_inference.observability.budget import Budget, BudgetArgs
from gke_inference.observability.dashboards import (
    Dashboards,
    DashboardsArgs,
    ObservedModelArgs,
    scope_of,
)
from gke_inference.observability.promql import Scope
from gke_inference.observability.settings import SECRET_KINDS
from infra.plan import Plan, ServedModel
from infra.plan.project import ProjectPlan
from infra.reading.load import PROJECT
from infra.stack import Budget as BudgetSettings
from infra.stack import Covers, Front, Layer, Model, Receiver, Role, Task
from infra.stack.monitoring import secret_key


def observe(plan: Plan, after: list[pulumi.Resource]) -> None:
    """Create dashboards, alerts and budget. Receiver secrets come from the configuration."""
    opts = pulumi.ResourceOptions(depends_on=after)
    dashboards = dashboards_args(plan)
    if dashboards is not None:
        Dashboards("dashboards", dashboards, opts)
    config = pulumi.Config(PROJECT)
    secrets = {
        name: config.require_secret(secret_key(name))
        for name, receiver in plan.platform.monitoring.notify.items()
        if receiver.kind in SECRET_KINDS
    }
    alerts = alerts_args(plan, secrets)
    policies = None if alerts is None else Alerts("alerts", alerts, opts)
    set_budget(plan, opts, None if policies is None else policies.channels)


def set_budget(
    plan: Plan, opts: pulumi.ResourceOptions, channels: pulumi.Output[list[str]] | None = None
) -> None:
    """Create the budget, if the stack has one.

    Args:
        plan: The stack.
        opts: Options of the budget.
        channels: Channels of the receivers of `monitoring.notify`, in their order.
    """
    budget = plan.platform.budget
    if budget is not None:
        receivers = list(plan.platform.monitoring.notify)
        args = budget_args(budget, plan.project, plan.names.title(), receivers, channels)
        Budget("budget", args, opts)


def observed_models(plan: Plan) -> list[ObservedModelArgs]:
    """Return all models and canaries, for dashboards and alerts."""
    return [_observed(plan, every) for every in plan.models.values()]


def _observed(plan: Plan, every: Sequence[ServedModel]) -> ObservedModelArgs:
    first, model = every[0], every[0].settings
    roles = [role for served in every for role in served.roles]
    args = ObservedModelArgs(
        clusters=[plan.regions[served.region].cluster_name for served in every],
        deployments=sorted({name for role in roles for name in role.deployments.values()}),
        has_picker=model.task is Task.GENERATE,
        job=first.object_name,
        prices=_prices(first),
    )
    if model.engine != DEFAULT_ENGINE:
        args["engine"] = model.engine
    if model.task is Task.GENERATE and _has_watched_picker(plan, model):
        args["picker_limit_mib"] = first.picker_limit_mib
    if first.has_kv_tiers:
        args["has_kv_tiers"] = True
    if first.is_from_zero:
        args["is_from_zero"] = True
    if model.replicas.hold is not None:
        args["holds_requests"] = True
    if first.chips_by_model:
        args["has_own_chips"] = True
    if model.disaggregated is not None:
        args["roles"] = [role.value for role in Role]
    if model.task is Task.PREDICT:
        args["predict_seconds"] = model.timeout_seconds
    if model.slo is not None and model.slo.ttft_p95_ms is not None:
        args["ttft_p95_ms"] = model.slo.ttft_p95_ms
    if model.slo is not None and model.slo.tpot_p95_ms is not None:
        args["tpot_p95_ms"] = model.slo.tpot_p95_ms
    return args


def _has_watched_picker(plan: Plan, model: Model) -> bool:
    """Return whether a picker's use is watched: where its load is stated, or of the newer line."""
    return model.peak is not None or LLM_D_ROUTER in plan.front.gateway.picker_lines


def _prices(served: ServedModel) -> dict[str, float]:
    """Return the price of a replica by Deployment: that of its first rung with a known price."""
    found: dict[str, float] = {}
    for role in served.roles:
        for kind in role.deployments:
            rungs = role.rungs if kind == "any" else role.capacity.of_kind(kind)
            prices = (rung_price(rung, role.region, allow_partial=True) for rung in rungs.values())
            price = next((price for price in prices if price is not None), None)
            if price is not None:
                for name in role.controllers(kind):
                    found[name] = round(price.usd_per_hour, 4)
    return found


def dashboards_args(plan: Plan) -> DashboardsArgs | None:
    """Return the arguments of the dashboards, if the stack creates them."""
    return _dashboards(plan) if plan.platform.monitoring.dashboards else None


def _dashboards(plan: Plan) -> DashboardsArgs:
    platform = plan.platform
    args = DashboardsArgs(
        exposure=platform.gateway.exposure.value,
        models=observed_models(plan),
        namespace=plan.names.namespace(),
        project=platform.project,
        queue_clusters=_queue_clusters(plan),
        title=plan.names.title(),
    )
    _mark(plan, args)
    return args


def _mark(plan: Plan, args: DashboardsArgs | AlertsArgs) -> None:
    """Add what dashboards and alerts both have for the parts of a stack."""
    platform, lines = plan.platform, plan.front.gateway.picker_lines
    if lines == (LLM_D_ROUTER,):
        args["picker"] = LLM_D_ROUTER  # during a move, both lines have the names of the older one
    if len(lines) > 1:
        args["has_next_picker"] = True
    if platform.gateway.front is Front.GLOBAL:
        args["front"] = True
    if plan.has_gate and platform.layer is Layer.ALL:
        args["clients"] = True
        if plan.guardrails.guards:
            args["guards"] = True
    if platform.layer is Layer.ALL and plan.front.has_body_router:
        args["body_router"] = plan.names.body_router()
    if plan.backends is not None:
        args["backends"] = True
    if platform.batches is not None:
        args["batches"] = True


def _queue_clusters(plan: Plan) -> list[str]:
    """Return the clusters with job queues."""
    return [region.cluster_name for region in plan.regions.values() if region.queues]


def alerts_args(plan: Plan, secrets: Mapping[str, pulumi.Input[str]]) -> AlertsArgs | None:
    """Return the arguments of the alerts, if the stack creates them.

    Args:
        plan: The stack.
        secrets: Tokens, keys and URLs of receivers, by the receiver's name.
    """
    platform, settings = plan.platform, plan.platform.monitoring
    if not settings.alerts:
        return None
    args = AlertsArgs(
        exposure=platform.gateway.exposure.value,
        models=observed_models(plan),
        namespace=plan.names.namespace(),
        project=platform.project,
        queue_clusters=_queue_clusters(plan),
        receivers=[
            _receiver(name, receiver, secrets) for name, receiver in settings.notify.items()
        ],
        title=plan.names.title(),
    )
    _mark(plan, args)
    has_fallback = any(model.fallback is not None for model in platform.models.values())
    if plan.backends is not None and has_fallback:
        args["fallbacks"] = True
    if platform.personal_images is not None:
        args["personal_images"] = plan.names.personal()
        args["personal_train_seconds"] = platform.personal_images.train_seconds
    messages = [each.physical for each in plan.streams if not each.is_kafka]
    if found := [*messages, *(each.physical for each in plan.pipelines)]:
        args["subscriptions"] = found
    if found := [each.name for each in plan.streams if each.is_kafka]:
        args["kafka_streams"] = found
    if settings.cost_limit_usd_per_hour is not None:
        args["cost_limit_usd_per_hour"] = settings.cost_limit_usd_per_hour
    if platform.gateway.hostname is not None:
        args["hostname"] = platform.gateway.hostname
        args["health_path"] = health_path(plan.front.catalogue_path)
        args["port"] = platform.gateway.listening_port
    if settings.runbooks_url is not None:
        args["runbooks_url"] = settings.runbooks_url
    return args


def budget_args(
    budget: BudgetSettings,
    project: ProjectPlan,
    title: str,
    receivers: Sequence[str],
    channels: pulumi.Output[list[str]] | None,
) -> BudgetArgs:
    """Return the arguments of a budget.

    Args:
        budget: Its settings.
        project: Project of the stack.
        title: Name of the stack.
        receivers: Names of the receivers of `monitoring.notify`.
        channels: Channels of these receivers, in the same order.
    """
    args = BudgetArgs(
        alert_percents=list(budget.alert_percent),
        billing_account=budget.billing_account,
        billing_admins=budget.billing_admins,
        forecast_percents=list(budget.forecast_percent),
        monthly_usd=budget.monthly_usd,
        project_number=project.number,
        title=title,
    )
    if budget.covers is Covers.STACK:
        args["label"] = project.labels
    if budget.topic is not None:
        args["topic"] = budget.topic
    if budget.notify and channels is not None:
        args["channels"] = [_at(channels, receivers.index(name)) for name in budget.notify]
    return args


def _at(values: pulumi.Output[list[str]], index: int) -> pulumi.Output[str]:
    return values.apply(lambda each: each[index])


def _receiver(
    name: str, receiver: Receiver, secrets: Mapping[str, pulumi.Input[str]]
) -> ReceiverArgs:
    args = ReceiverArgs(kind=receiver.kind, name=name, severity=receiver.severity)
    if receiver.address is not None:
        args["address"] = receiver.address
    if receiver.channel is not None:
        args["channel"] = receiver.channel
    if name in secrets:
        args["secret"] = secrets[name]
    return args


def scope(plan: Plan) -> Scope:
    """Return the scope of a platform's dashboards and alerts."""
    settings = alerts_args(plan, {}) or _dashboards(plan)
    namespace = plan.names.namespace()
    return scope_of(observed_models(plan), namespace, settings)
