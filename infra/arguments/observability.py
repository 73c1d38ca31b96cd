"""The translator of what is watched: models as dashboards and alerts know them, and receivers."""

from collections.abc import Mapping

import pulumi

from gke_inference.catalogue.prices import rung_price
from gke_inference.observability.alerts import AlertsArgs, ReceiverArgs
from gke_inference.observability.budget import BudgetArgs
from gke_inference.observability.dashboards import DashboardsArgs, ObservedModelArgs, scope_of
from gke_inference.observability.promql import Scope
from gke_inference.serving.intent import ROLES
from infra.plan.canary import with_canaries
from infra.plan.capacity import checked_rungs, form_in, prefill_capacity
from infra.plan.names import NAMESPACE, Names, object_name
from infra.stack import Covers, Form, Platform, Receiver, Task


def deployment_names(platform: Platform, name: str, region: str) -> dict[str, str]:
    """Return the names of a model's Deployments in a region, by kind of hardware or by role."""
    model = platform.models[name]
    if model.disaggregated is not None:
        return {role: f"{object_name(name)}-{role}" for role in ROLES}
    if form_in(platform, model, region) is Form.DUAL_CONTAINER:
        return {"any": object_name(name)}
    rungs = checked_rungs(platform, model.capacity, region).values()
    kinds = dict.fromkeys(rung.kind for rung in rungs)
    return {kind: f"{object_name(name)}-{kind}" for kind in sorted(kinds, reverse=True)}


def observed_models(platform: Platform) -> list[ObservedModelArgs]:
    """Return every model and every canary as dashboards and alerts know it."""
    served = with_canaries(platform)
    return [_observed(served, name) for name in served.models]


def _observed(platform: Platform, name: str) -> ObservedModelArgs:
    model = platform.models[name]
    regions = list(platform.regions_of(model))
    names = [deployment_names(platform, name, region) for region in regions]
    args = ObservedModelArgs(
        clusters=[Names(platform).cluster(region) for region in regions],
        deployments=sorted({deployment for by_kind in names for deployment in by_kind.values()}),
        has_picker=model.task is Task.GENERATE,
        job=object_name(name),
        prices=_prices(platform, name, regions[0]),
    )
    if model.engine.value != "vllm":
        args["engine"] = model.engine.value
    if model.disaggregated is not None:
        args["roles"] = list(ROLES)
    if model.slo is not None and model.slo.ttft_p95_ms is not None:
        args["ttft_p95_ms"] = model.slo.ttft_p95_ms
    if model.slo is not None and model.slo.tpot_p95_ms is not None:
        args["tpot_p95_ms"] = model.slo.tpot_p95_ms
    return args


def _prices(platform: Platform, name: str, region: str) -> dict[str, float]:
    """Return the price of a replica by Deployment: its first rung with a known one."""
    model = platform.models[name]
    found: dict[str, float] = {}
    for kind, deployment in deployment_names(platform, name, region).items():
        own = prefill_capacity(model) if kind == "prefill" else None
        for rung in checked_rungs(platform, own or model.capacity, region).values():
            fits = kind in ("any", *ROLES, rung.kind)
            price = rung_price(rung, region, allow_lower_bound=True) if fits else None
            if price is not None:
                found[deployment] = round(price.usd_per_hour, 4)
                break
    return found


def dashboards_args(platform: Platform) -> DashboardsArgs | None:
    """Return the arguments of the dashboards, where the stack wants them."""
    if not platform.monitoring.dashboards:
        return None
    return DashboardsArgs(
        exposure=platform.gateway.exposure.value,
        models=observed_models(platform),
        namespace=NAMESPACE,
        project=platform.project,
        title=f"{platform.prefix} {platform.environment}",
    )


def alerts_args(platform: Platform, secrets: Mapping[str, pulumi.Input[str]]) -> AlertsArgs | None:
    """Return the arguments of the alerts, where the stack wants them.

    Args:
        platform: The stack.
        secrets: Tokens, keys and URLs of receivers, by the receiver's name.
    """
    settings = platform.monitoring
    if not settings.alerts:
        return None
    args = AlertsArgs(
        exposure=platform.gateway.exposure.value,
        models=observed_models(platform),
        namespace=NAMESPACE,
        project=platform.project,
        receivers=[
            _receiver(name, receiver, secrets) for name, receiver in settings.notify.items()
        ],
        title=f"{platform.prefix} {platform.environment}",
    )
    if settings.cost_limit_usd_per_hour is not None:
        args["cost_limit_usd_per_hour"] = settings.cost_limit_usd_per_hour
    if platform.gateway.hostname is not None:
        args["hostname"] = platform.gateway.hostname
    if settings.runbooks_url is not None:
        args["runbooks_url"] = settings.runbooks_url
    return args


def budget_args(platform: Platform, channels: pulumi.Output[list[str]] | None) -> BudgetArgs | None:
    """Return the arguments of the budget, where the stack has one.

    Args:
        platform: The stack.
        channels: Channels of the receivers of `monitoring.notify`, in their order.
    """
    budget = platform.budget
    if budget is None:
        return None
    args = BudgetArgs(
        alert_percents=list(budget.alert_percent),
        billing_account=budget.billing_account,
        billing_admins=budget.billing_admins,
        forecast_percents=list(budget.forecast_percent),
        monthly_usd=budget.monthly_usd,
        project_number=str(platform.project_number),
        title=f"{platform.prefix} {platform.environment}",
    )
    if budget.covers is Covers.STACK:
        args["label"] = {"env": platform.environment}
    if budget.topic is not None:
        args["topic"] = budget.topic
    if budget.notify and channels is not None:
        order = list(platform.monitoring.notify)
        args["channels"] = [_at(channels, order.index(name)) for name in budget.notify]
    return args


def _at(values: pulumi.Output[list[str]], index: int) -> pulumi.Output[str]:
    return values.apply(lambda each: each[index])


def _receiver(
    name: str, receiver: Receiver, secrets: Mapping[str, pulumi.Input[str]]
) -> ReceiverArgs:
    args = ReceiverArgs(kind=receiver.kind.value, name=name, severity=receiver.severity.value)
    if receiver.address is not None:
        args["address"] = receiver.address
    if receiver.channel is not None:
        args["channel"] = receiver.channel
    if name in secrets:
        args["secret"] = secrets[name]
    return args


def scope(platform: Platform) -> Scope:
    """Return what the dashboards and alerts of a platform are about."""
    settings = alerts_args(platform, {}) or {"exposure": platform.gateway.exposure.value}
    return scope_of(observed_models(platform), NAMESPACE, settings, "models")
