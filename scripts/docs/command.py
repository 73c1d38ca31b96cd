"""`gke-inference docs`: the pages and the stub that are generated from code and data."""

from collections.abc import Callable
from pathlib import Path

import typer

from scripts.docs.abilities import abilities_page
from scripts.docs.checkov import checkov_page
from scripts.docs.cis import cis_page
from scripts.docs.claims import claims_chart, claims_page
from scripts.docs.cli import cli_page
from scripts.docs.components import components_page
from scripts.docs.cost_blocks import pages_with_costs
from scripts.docs.engine import engine_page, engine_plot
from scripts.docs.environment import environment_page
from scripts.docs.errors import errors_page
from scripts.docs.exit_codes import exit_codes_page
from scripts.docs.flows import flows
from scripts.docs.image_claims import image_claims_page
from scripts.docs.invariants import invariants_page
from scripts.docs.layers import code_structure_page
from scripts.docs.limits import limits_page
from scripts.docs.notice import NOTICE
from scripts.docs.policies import policies_page
from scripts.docs.program_bounds import bounds_file, gateway_bounds, service_bounds
from scripts.docs.public_names import public_names_stub
from scripts.docs.stack import stack_page
from scripts.release.contents.page import licenses_page
from scripts.release.surface.page import stability_page
from scripts.release.surface.record import record_text
from scripts.terminal.console import console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import CheckOption
from twin.host.paths import REPOSITORY
from twin.world.rules import Rule, all_rules

_RULES_OPENING = """\
# Rules of the twin

The assumptions that the twin simulates, each with its public source. *Documented*: an official page
or schema states it. *Observed*: a measurement was published. *Assumed*: there is no source; the
text or the source column gives the reason. Durations are in real time; the twin divides them by its
speed, which `make up` prints. The data is in [rules.yaml](rules.yaml).
"""
_AREAS = {
    "agent": "agent: the node agent",
    "autoscaler": "autoscaler: the cluster autoscaler",
    "cloud": "cloud: Google Cloud's API",
    "engine": "engine: the simulated vLLM",
    "gateway": "gateway: the load balancer",
    "hpa": "hpa: the horizontal pod autoscaler",
    "node": "node: machines",
    "quota": "quota",
    "rung": "rung: compute classes",
    "scenario": "scenario",
}


def rules_page() -> str:
    """Return twin/rules.md: every rule of the twin with its source, by area."""
    areas: dict[str, list[Rule]] = {}
    for rule in all_rules().values():
        areas.setdefault(rule.id.split(".")[0], []).append(rule)
    lines = [_RULES_OPENING]
    for area, rules in areas.items():
        lines += [
            f"## {_AREAS.get(area, area)}",
            "",
            "| rule | description | value | confidence | source |",
            "|---|---|---|---|---|",
            *(_rule_line(rule) for rule in rules),
            "",
        ]
    return NOTICE + "\n".join(lines)


def _rule_line(rule: Rule) -> str:
    value = "" if rule.value is None else f"{rule.value} {rule.unit}"
    value = value.strip().strip("[]").replace("'", "")  # shown as a plain list
    cells = [f"`{rule.id}`", rule.text, value, rule.confidence, f"{rule.source} ({rule.date})"]
    return "| " + " | ".join(cell.replace("|", "\\|").strip() for cell in cells) + " |"


PAGES: dict[str, Callable[[], str]] = {
    "components/gke_inference/__init__.pyi": public_names_stub,
    "twin/rules.md": rules_page,
    "docs/checkov-findings.md": lambda: NOTICE + checkov_page(),
    "docs/cis-gke-benchmark.md": lambda: NOTICE + cis_page(),
    "docs/code-structure.md": code_structure_page,
    "docs/image-claims.md": image_claims_page,
    "docs/images/engine-model.svg": engine_plot,
    "docs/images/published-claims.svg": claims_chart,
    "docs/invariants.md": lambda: NOTICE + invariants_page(),
    "docs/licenses.md": lambda: NOTICE + licenses_page(),
    "docs/limits.md": lambda: NOTICE + limits_page(),
    "docs/published-claims.md": claims_page,
    "docs/policies.md": lambda: NOTICE + policies_page(),
    "docs/reference/cli.md": lambda: NOTICE + cli_page(),
    "docs/reference/components.md": lambda: NOTICE + components_page(),
    "docs/reference/engine-model.md": lambda: NOTICE + engine_page(),
    "docs/reference/engines.md": lambda: NOTICE + abilities_page(),
    "docs/reference/environment.md": lambda: NOTICE + environment_page(),
    "docs/reference/errors.md": lambda: NOTICE + errors_page(),
    "docs/reference/exit-codes.md": lambda: NOTICE + exit_codes_page(),
    "docs/reference/stability.md": lambda: NOTICE + stability_page(),
    "docs/reference/stack.md": lambda: NOTICE + stack_page(),
    "scripts/release/surface/record.txt": record_text,
    "workloads/common/bounds.json": lambda: bounds_file(service_bounds()),
    "workloads/gateway/internal/bounds/bounds.json": lambda: bounds_file(gateway_bounds()),
    **pages_with_costs(),
    **flows(),
}


def stale_pages(root: Path = REPOSITORY) -> list[str]:
    """Return the pages that are out of date."""
    return [
        name
        for name, page in PAGES.items()
        if not (root / name).exists() or (root / name).read_text() != page()
    ]


def docs(
    check: CheckOption = False,
) -> None:
    """Write the pages that are generated from code and data."""
    stale = stale_pages()
    if check and stale:
        console.print(f"out of date: {', '.join(stale)}; run make docs", soft_wrap=True)
        raise typer.Exit(ExitCode.CHECK_FAILED)
    for name in stale:
        (REPOSITORY / name).parent.mkdir(parents=True, exist_ok=True)
        (REPOSITORY / name).write_text(PAGES[name]())
        console.print(f"wrote {name}")
