"""`gke-inference render`: every object and resource of a stack as files, from a preview."""

import json
import shutil
import tempfile
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from policies.reading import CLUSTER
from scripts.console import CommandError, console
from scripts.cost import running
from scripts.dashboards import write_grafana
from scripts.engine import Engine, check_stack
from scripts.quota import twin_limits
from scripts.report.page import page
from scripts.report.write import write_report
from scripts.strict import check_folder
from scripts.words import plan_of
from twin.host.paths import REPOSITORY, TwinPaths
from twin.providers.kubernetes.manifests.objects import to_object
from twin.wire.rpc import UNKNOWN

NOT_KNOWN = "(known after up)"
_PROVIDER = "pulumi:providers:kubernetes"
_CREATES = ("create", "read")


def preview_states(engine: Engine, stack: str) -> list[dict[str, Any]]:
    """Return the states that a first `up` of a stack would make, whatever is deployed now.

    Raises:
        CommandError: the preview failed, with what it said.
    """
    check_stack(stack)
    with tempfile.TemporaryDirectory() as folder:
        environment = {"PULUMI_BACKEND_URL": f"file://{folder}"}
        made = engine.run(
            "stack", "init", stack, "--no-select", capture=True, environment=environment
        )
        if made.returncode:
            raise CommandError(made.stderr.strip())
        answer = engine.run("preview", "-s", stack, "--json", capture=True, environment=environment)
    if answer.returncode:
        why = said(answer.stdout) or answer.stderr.strip() or answer.stdout.strip()[-2000:]
        raise CommandError(f"the preview of {stack} failed: {why}")
    steps: list[dict[str, Any]] = json.loads(answer.stdout)["steps"]
    return [step["newState"] for step in steps if step["op"] in _CREATES]


def said(output: str) -> str:
    """Return the errors in the JSON that a preview printed; empty where it printed none."""
    try:
        found: list[dict[str, Any]] = json.loads(output).get("diagnostics", [])
    except ValueError:
        return ""
    messages = [item["message"].strip() for item in found if item.get("severity") == "error"]
    return "; ".join(dict.fromkeys(messages))


def without_unknowns(value: Any) -> Any:
    """Return a value with the engine's marker for unknowns made readable, at any depth."""
    if isinstance(value, dict):
        return {key: without_unknowns(item) for key, item in value.items()}  # pyright: ignore
    if isinstance(value, list):
        return [without_unknowns(item) for item in value]  # pyright: ignore
    return value.replace(UNKNOWN, NOT_KNOWN) if isinstance(value, str) else value


def cluster_names(states: list[dict[str, Any]]) -> dict[str, str]:
    """Return the cluster's name by the URN of the kubernetes provider that reaches it."""
    by_urn = {state["urn"]: state for state in states}
    names: dict[str, str] = {}
    for state in states:
        if state["type"] != _PROVIDER:
            continue
        by_property: dict[str, list[str]] = state.get("propertyDependencies", {})
        dependencies = by_property.get("kubeconfig", [])
        clusters = [urn for urn in dependencies if by_urn.get(urn, {}).get("type") == CLUSTER]
        if len(clusters) != 1:
            raise CommandError(
                f"{state['urn']}: its kubeconfig comes from {len(clusters)} clusters"
            )
        names[state["urn"]] = by_urn[clusters[0]]["inputs"]["name"]
    return names


def manifests(states: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the Kubernetes objects by the name of their cluster."""
    names = cluster_names(states)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names.values()}
    for state in states:
        if not state["type"].startswith("kubernetes:"):
            continue
        provider = str(state.get("provider", "")).rsplit("::", 1)[0]
        if provider not in names:
            raise CommandError(f"{state['urn']}: has no provider of its own cluster")
        found[names[provider]].append(to_object(without_unknowns(state["inputs"])))
    return found


def manifest_path(obj: dict[str, Any]) -> Path:
    """Return where an object's file goes, below its cluster's folder."""
    metadata = obj["metadata"]
    group = obj["apiVersion"].split("/")[0] if "/" in obj["apiVersion"] else "core"
    file = f"{obj['kind'].lower()}.{group}-{metadata['name']}.yaml"
    return Path(metadata.get("namespace", "cluster-wide")) / file


def write(states: list[dict[str, Any]], folder: Path) -> tuple[int, int]:
    """Write manifests/<cluster>/… and resources.json and return (objects, resources)."""
    shutil.rmtree(folder / "manifests", ignore_errors=True)
    objects = 0
    for cluster, items in manifests(states).items():
        for item in items:
            file = folder / "manifests" / cluster / manifest_path(item)
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.exists():
                raise CommandError(f"{file}: two objects have this kind, namespace and name")
            file.write_text(yaml.safe_dump(item, sort_keys=True, width=100))
            objects += 1
    kept = ("urn", "type", "parent", "protect", "inputs")
    resources = sorted(
        ({key: state[key] for key in kept if key in state} for state in states),
        key=lambda state: state["urn"],
    )
    text = json.dumps(without_unknowns(resources), indent=1, sort_keys=True)
    (folder / "resources.json").write_text(text + "\n")
    return objects, len(resources)


def render(
    stack: Annotated[str, typer.Option(help="Environment: a file stacks/Pulumi.NAME.yaml.")],
    check: Annotated[
        bool,
        typer.Option("--check", help="Also put every object to a real API server's strict checks."),
    ] = False,
) -> None:
    """Write every object and resource of a stack, and a page about it, to build/STACK/."""
    plan = plan_of(stack)
    engine = Engine(TwinPaths.default())
    folder = REPOSITORY / "build" / stack
    folder.mkdir(parents=True, exist_ok=True)
    objects, resources = write(preview_states(engine, stack), folder)
    console.print(f"build/{stack}/manifests       {objects} Kubernetes objects")
    console.print(f"build/{stack}/resources.json  {resources} resources")
    pages = write_grafana(plan, folder / "dashboards")
    console.print(f"build/{stack}/dashboards      {len(pages)} dashboards for Grafana")
    report = page(
        plan,
        stack,
        folder,
        day=date.today(),
        now=running(plan),
        limit_of=twin_limits(),
    )
    file = write_report(report, folder)
    console.print(f"build/{stack}/index.html      the report; open {file.as_uri()}", soft_wrap=True)
    if check:
        problems = check_folder(folder)
        if problems:
            raise CommandError("refused:\n  " + "\n  ".join(problems))
        console.print("All of them pass the strict checks.")
