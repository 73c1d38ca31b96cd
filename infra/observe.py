"""What watches the whole platform: dashboards and alerts, once a project."""

import pulumi

from gke_inference.alerts import Alerts
from gke_inference.dashboards import Dashboards
from infra import observed
from infra.load import PROJECT
from infra.stack import Platform
from infra.stack.receivers import SECRET_KINDS, secret_key


def observe(platform: Platform, after: list[pulumi.Resource]) -> None:
    """Make dashboards and alerts; secrets of receivers come from the stack's configuration."""
    opts = pulumi.ResourceOptions(depends_on=after)
    dashboards = observed.dashboards_args(platform)
    if dashboards is not None:
        Dashboards("dashboards", dashboards, opts)
    config = pulumi.Config(PROJECT)
    secrets = {
        name: config.require_secret(secret_key(name))
        for name, receiver in platform.monitoring.notify.items()
        if receiver.kind in SECRET_KINDS
    }
    alerts = observed.alerts_args(platform, secrets)
    if alerts is not None:
        Alerts("alerts", alerts, opts)
