"""The dashboards of a stack as files: JSON for Grafana, and a page that the twin serves."""

from pathlib import Path

from gke_inference.observability.alert_source import RUNBOOKS, runbook_name, sources
from gke_inference.observability.dashboard_source import dashboards as made_for
from infra.deploy.observability import scope
from infra.plan import Plan
from scripts.observe.grafana import WINDOW, grafana_dashboard
from scripts.observe.page import NAME, console_page, runbook_page
from twin.cluster import lifecycle as clusters
from twin.cluster.base.context import ClusterSpec
from twin.cluster.monitoring.server import address_of
from twin.host.paths import REPOSITORY, TwinPaths
from twin.world.rules import Rules

_TWIN_WINDOW = "1m"  # the twin scrapes every few seconds


def write_grafana(plan: Plan, folder: Path) -> list[Path]:
    """Write one JSON file per dashboard and return the files; none without a model.

    Other files in the folder are kept.
    """
    if not plan.models:
        return []  # dashboards of a platform belong to its serving stacks
    folder.mkdir(parents=True, exist_ok=True)
    stack = plan.names.title().replace(" ", "-")
    written: list[Path] = []
    for page in made_for(scope(plan), window=WINDOW):
        file = folder / f"{page.name}.json"
        file.write_text(grafana_dashboard(page, stack), encoding="utf-8")
        written.append(file)
    return written


def _publish_runbooks(folder: Path) -> None:
    """Write a page for each runbook, to which alerts on the page link."""
    folder.mkdir(exist_ok=True)
    for alert in sources():
        name = runbook_name(alert["name"])
        source = REPOSITORY / RUNBOOKS / f"{name}.md"
        if source.exists():  # a checkout of the programs alone has no documentation
            page = runbook_page(name, source.read_text(encoding="utf-8"))
            (folder / f"{name}.html").write_text(page, encoding="utf-8")


def publish(plan: Plan, paths: TwinPaths) -> dict[str, str]:
    """Write the dashboards' page of every cluster of the twin and return its URL by cluster.

    A cluster whose Prometheus never ran has none.
    """
    pages = made_for(scope(plan), window=_TWIN_WINDOW)
    title = plan.names.title()
    urls: dict[str, str] = {}
    for folder in clusters.folders(paths):
        address = address_of(folder)
        if address is None:
            continue
        name = ClusterSpec.load(folder).name
        page = NAME if plan.platform.team is None else f"{plan.platform.team}-{NAME}"
        file = folder / "prometheus" / "consoles" / page
        file.parent.mkdir(parents=True, exist_ok=True)
        speed = Rules.of(paths).speed
        file.write_text(console_page(title, name, pages, speed), encoding="utf-8")
        _publish_runbooks(file.parent / "runbooks")
        urls[name] = f"http://{address}/consoles/{page}"
    return urls
