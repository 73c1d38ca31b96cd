"""Observability of the whole platform: dashboards, alerts and a budget, once per project."""

import pulumi

from gke_inference.observability.alerts import Alerts
from gke_inference.observability.budget import Budget
from gke_inference.observability.dashboards import Dashboards
from infra.arguments import observability
from infra.plan import Plan
from infra.reading.load import PROJECT
from infra.stack.receivers import SECRET_KINDS, secret_key


def observe(plan: Plan, after: list[pulumi.Resource]) -> None:
    """Create dashboards, alerts and budget. Receiver secrets come from the configuration."""
    opts = pulumi.ResourceOptions(depends_on=after)
    dashboards = observability.dashboards_args(plan)
    if dashboards is not None:
        Dashboards("dashboards", dashboards, opts)
    config = pulumi.Config(PROJECT)
    secrets = {
        name: config.require_secret(secret_key(name))
        for name, receiver in plan.platform.monitoring.notify.items()
        if receiver.kind in SECRET_KINDS
    }
    alerts = observability.alerts_args(plan, secrets)
    made = None if alerts is None else Alerts("alerts", alerts, opts)
    set_budget(plan, opts, None if made is None else made.channels)


def set_budget(
    plan: Plan, opts: pulumi.ResourceOptions, channels: pulumi.Output[list[str]] | None = None
) -> None:
    """Create the budget, if the stack has one.

    Args:
        plan: The stack.
        opts: Options of the budget.
        channels: Channels of the receivers of `monitoring.notify`, in their order.
    """
    budget = observability.budget_args(plan.platform, channels)
    if budget is not None:
        Budget("budget", budget, opts)
