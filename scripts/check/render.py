"""`gke-inference render`: every object and resource of a stack as files, from a preview."""

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from scripts.check.server_side_checks import check_folder
from scripts.delivery.signing import signer_of
from scripts.delivery.writing import check_targets, stack_tree, write_targets
from scripts.report.page import page
from scripts.report.write import write_report
from scripts.shared.dashboard_files import write_grafana
from scripts.shared.engine import Engine, OfficialOption, official_to_preview
from scripts.shared.google_cloud import Cloud
from scripts.shared.preview_states import manifests, preview_states, without_unknowns
from scripts.shared.program_hosts import program_hosts
from scripts.shared.quota_limits import twin_limits
from scripts.shared.running_cost import running
from scripts.shared.tool_setup import ensure_tools
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import StackOption, plan_of
from twin.host.paths import REPOSITORY, TwinPaths

_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The one in C if available, which takes a tenth of the time."""


def manifest_path(obj: dict[str, Any]) -> Path:
    """Return the path of an object's file, below its cluster's folder."""
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
                raise CommandError(
                    f"{file}: must be one object, got two of this kind, namespace and name"
                )
            file.write_text(yaml.dump(item, Dumper=_DUMPER, sort_keys=True, width=100))
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
    stack: StackOption,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Also check every object with a real API server; exits 1 if one is rejected.",
        ),
    ] = False,
    git: Annotated[
        Path | None,
        typer.Option(
            help="Also write the objects of a serving stack to this checkout of a repository, as"
            " Config Sync and Argo CD read them."
        ),
    ] = None,
    oci: Annotated[
        str | None,
        typer.Option(
            help="Also write these as an OCI artifact: to a registry (HOST/PATH:TAG) or as a layout"
            " (FOLDER:TAG)."
        ),
    ] = None,
    sign: Annotated[
        str | None,
        typer.Option(
            help="Also sign the artifact in the registry, for `cosign verify --key`: a PEM file, or"
            " gcpkms:// and the name of a key version."
        ),
    ] = None,
    official: OfficialOption = False,
) -> None:
    """Write every object and resource of a stack, and a report, to build/STACK/."""
    plan = plan_of(stack)
    check_targets(plan, stack, git, oci, sign)
    signer = None if sign is None else signer_of(sign, _connect)
    paths, plugins = TwinPaths.default(), official_to_preview(official)
    hosts = program_hosts(paths, plugins)
    if check:
        ensure_tools("cluster")  # the API server that checks
    engine = Engine(paths, official=plugins, hosts=hosts)
    folder = REPOSITORY / "build" / stack
    folder.mkdir(parents=True, exist_ok=True)
    states = preview_states(engine, stack)
    wanted = git is not None or oci is not None
    tree = stack_tree(plan, stack, manifests(states)) if wanted else None
    objects, resources = write(states, folder)
    console.print(f"build/{stack}/manifests       {objects} Kubernetes objects")
    console.print(f"build/{stack}/resources.json  {resources} resources")
    if tree is not None:
        write_targets(tree, stack, git, oci, signer)
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
        _check(folder)


def _connect(project: str) -> Cloud:
    from scripts.shared.google_clients import connect  # noqa: PLC0415 - a second to load

    return connect(project)


def _check(folder: Path) -> None:
    """Print what an API server rejects.

    Raises:
        typer.Exit: Something is rejected.
    """
    problems = check_folder(folder)
    for problem in problems:
        console.print(f"rejected: {problem}", markup=False, soft_wrap=True)
    if problems:
        raise typer.Exit(ExitCode.CHECK_FAILED)
    console.print("The API server accepts every object.")
