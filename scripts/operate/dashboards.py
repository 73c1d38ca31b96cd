"""`gke-inference dashboards`: the dashboards of a stack as files for Grafana, and on the twin."""

from scripts.shared.dashboard_files import publish, write_grafana
from scripts.shared.platform_state import refuse_platform
from scripts.terminal.console import console
from scripts.terminal.options import StackOption, plan_of
from twin.host.paths import REPOSITORY, TwinPaths


def dashboards(stack: StackOption = "local") -> None:
    """Write the Grafana dashboards of a stack and print the dashboard URLs of the twin.

    The files are in build/STACK/dashboards.
    """
    plan = plan_of(stack)
    refuse_platform(plan.platform.layer, stack)
    folder = REPOSITORY / "build" / stack / "dashboards"
    for file in write_grafana(plan, folder):
        console.print(f"build/{stack}/dashboards/{file.name}")
    for cluster, url in publish(plan, TwinPaths.default()).items():
        console.print(f"{cluster}  {url}", soft_wrap=True)
