"""`gke-inference dashboards`: the dashboards of a stack as files for Grafana, and on the twin."""

from pathlib import Path
from typing import Annotated

import typer

from gke_inference.observability.dashboard_source import dashboards as made_for
from gke_inference.observability.promql import Dialect
from infra.arguments.observability import scope
from infra.plan import Plan
from scripts.console import console
from scripts.observe.grafana import WINDOW, grafana_dashboard
from scripts.observe.page import NAME, console_page
from scripts.words import plan_of
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterSpec
from twin.cluster.monitoring.server import address_of
from twin.host.paths import REPOSITORY, TwinPaths

_TWIN_WINDOW = "1m"  # the twin scrapes every few seconds


def write_grafana(plan: Plan, folder: Path) -> list[Path]:
    """Write one JSON file a dashboard and return them; other files of the folder stay."""
    folder.mkdir(parents=True, exist_ok=True)
    stack = f"{plan.platform.prefix}-{plan.platform.environment}"
    written: list[Path] = []
    for page in made_for(scope(plan), Dialect.MANAGED, WINDOW):
        file = folder / f"{page.name}.json"
        file.write_text(grafana_dashboard(page, stack), encoding="utf-8")
        written.append(file)
    return written


def publish(plan: Plan, paths: TwinPaths) -> dict[str, str]:
    """Give every cluster of the twin the dashboards' page and return its URL by cluster.

    A cluster whose Prometheus never ran has none.
    """
    pages = made_for(scope(plan), Dialect.PROMETHEUS, _TWIN_WINDOW)
    title = f"{plan.platform.prefix} {plan.platform.environment}"
    urls: dict[str, str] = {}
    for folder in clusters.folders(paths):
        address = address_of(folder)
        if address is None:
            continue
        name = ClusterSpec.load(folder).name
        file = folder / "prometheus" / "consoles" / NAME
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(console_page(title, name, pages), encoding="utf-8")
        urls[name] = f"http://{address}/consoles/{NAME}"
    return urls


def dashboards(
    stack: Annotated[str, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")] = (
        "local"
    ),
) -> None:
    """Write a stack's dashboards for Grafana to build/STACK/dashboards, and show the twin's own."""
    plan = plan_of(stack)
    folder = REPOSITORY / "build" / stack / "dashboards"
    for file in write_grafana(plan, folder):
        console.print(f"build/{stack}/dashboards/{file.name}")
    for cluster, url in publish(plan, TwinPaths.default()).items():
        console.print(f"{cluster}  {url}", soft_wrap=True)
