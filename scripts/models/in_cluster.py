"""`models push --in-cluster`: runs a job in a cluster of the stack and removes it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes
import typer
from pulumi import automation

from gke_inference.base.kubeconfig import kubeconfig
from gke_inference.catalogue.names import service_account_email
from gke_inference.catalogue.versions import base_image
from gke_inference.storage.weights_job import WeightsDiskArgs, WeightsJob, WeightsJobArgs
from infra.bootstrap.settings import Project
from infra.plan import Plan, resolve
from infra.plan.names import object_name
from infra.plan.project import ProjectPlan
from scripts.bootstrap import changes, places
from scripts.bootstrap.state import Surroundings
from scripts.models.places import Target, targets
from scripts.models.uploads import PushOptions
from scripts.shared import google_clients
from scripts.shared.clusters import dns_endpoint
from scripts.shared.google_cloud import Cloud, CloudError
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import check_one, stack_of
from scripts.terminal.where import Where, say_where
from twin.host.paths import REPOSITORY, WORKLOADS, TwinPaths

PROJECT: Final = "gke-inference-weights"
"""Name of the Pulumi project of such jobs."""
_SPARE: Final = 1.5  # the files from the hub, including hidden and excluded ones, and a file system
_BYTES_PER_GIB: Final = 2**30
_LEAST_GIB: Final = 20


def push_in_cluster(
    stack: str,
    model: str,
    options: PushOptions,
    where: Where,
    *,
    yes: bool,
) -> None:
    """Run the job, and remove it after it succeeded; keep what it wrote.

    Raises:
        CommandError: The input is wrong, or Google, the cluster or the engine refused.
    """
    plan = resolve(stack_of(stack))
    known = targets(plan)
    target = known[check_one("--model", model, known)]
    args = job_args(plan, target, options)
    region = target.places[0].regions[0]
    if options.is_dry_run:
        show_args(args, region)
        return
    say_where(where, plan.platform.project)
    try:
        with google_clients.plain_errors(), changes.one_line():
            _run(plan, target, args, region, on_twin=where.is_twin, yes=yes)
    except CloudError as error:
        raise CommandError(str(error)) from None


def job_args(plan: Plan, target: Target, options: PushOptions) -> WeightsJobArgs:
    """Return the inputs of the job for one model of a stack.

    Raises:
        CommandError: The disk's zone is not one of the region's.
    """
    project, region = plan.project, target.places[0].regions[0]
    here, name = plan.regions[region], job_name(target.name)
    args = WeightsJobArgs(
        buckets=[home.bucket for home in target.homes],
        folder=target.folder,
        image=here.images.pulled_through(base_image("python")),
        job_name=name,
        labels=project.labels,
        makes_current=options.makes_current,
        namespace=here.namespace,
        node_service_account=service_account_email(plan.names.node_account(region), project.id),
        program=program_files(WORKLOADS),
        project=project.id,
        project_number=project.number,
        repository=str(options.repository),
        revision=options.revision or "main",
        scratch_gib=scratch_gib(plan, target),
    )
    if options.exclude:
        args["exclude"] = list(options.exclude)
    if options.token_secret is not None:
        args["token_secret"] = options.token_secret
    version = options.version or target.version
    if version is not None:
        args["version"] = version
    if options.snapshot is not None:
        zones = here.settings.zones
        disk = plan.models[_model(target)][0].settings.disk
        args["disk"] = WeightsDiskArgs(
            disk_name=f"{name}-fill",
            size_gib=scratch_gib(plan, target) if disk is None else disk.size_gib,
            snapshot_name=options.snapshot,
            zone=zones[0] if options.zone is None else check_one("--zone", options.zone, zones),
        )
    return args


def job_name(model: str) -> str:
    """Return the name of a model's job."""
    return f"weights-{object_name(model).replace('/', '-')}"


def scratch_gib(plan: Plan, target: Target) -> int:
    """Return the size of the job's working volume, by the model's size in the stack."""
    size = plan.models[_model(target)][0].settings.size
    return max(_LEAST_GIB, round(size.parameters_billion * 1e9 * 2 * _SPARE / _BYTES_PER_GIB))


def program_files(context: Path) -> dict[str, str]:
    """Return the files of the job's program by path, with the lock of its packages."""
    names = ["__init__.py", "engine/__init__.py", "engine/weights_manifest.py"]
    names += [f"transfer/{file.name}" for file in sorted((context / "transfer").glob("*.py"))]
    found = {f"workloads/{name}": (context / name).read_text() for name in names}
    lock = (context / "transfer" / "requirements.lock").read_text()
    return {**found, "requirements.lock": lock}


def show_args(args: Mapping[str, Any], region: str) -> None:
    """Print the inputs of the job, without the program."""
    console.print(f"A job in {region} would run with:", markup=False)
    for key, value in sorted(args.items()):
        if key != "program":
            console.print(f"  {key}: {value}", markup=False, soft_wrap=True)


def _run(
    plan: Plan, target: Target, args: WeightsJobArgs, region: str, *, on_twin: bool, yes: bool
) -> None:
    project = Project(plan.platform.project, plan.platform.project_number, ())
    folder = REPOSITORY / "build" / "models"
    if on_twin:
        paths = TwinPaths.default()
        cloud, surroundings = places.on_twin(project, paths)
        folder = paths.root / "models"
    else:
        cloud, surroundings = places.in_google_cloud(project)
    endpoint = cluster_endpoint(cloud, plan, region)
    folder /= f"{plan.platform.project}/{args['job_name']}"
    stack = _open(surroundings, folder, plan.project, args["job_name"])
    program = job_program(args, kubeconfig(region, endpoint))
    planned = changes.preview(stack, program)
    for change in planned:
        console.print(str(change), markup=False, soft_wrap=True)
    question = f"Run this job in {region}, and remove it when it has succeeded?"
    if not yes and not typer.confirm(question):
        console.print("Nothing was changed.")
        return
    changes.update(stack, program, _done)
    changes.destroy(stack, _done)
    console.print(f"{target.name}: complete in {', '.join(args['buckets'])}", markup=False)


def job_program(args: WeightsJobArgs, config: str) -> Callable[[], None]:
    """Return the Pulumi program with the job."""

    def program() -> None:
        provider = kubernetes.Provider("cluster", kubeconfig=config)
        WeightsJob("weights", args, pulumi.ResourceOptions(providers=[provider]))

    return program


def cluster_endpoint(cloud: Cloud, plan: Plan, region: str) -> str:
    """Return the DNS endpoint of a region's cluster.

    Raises:
        CloudError: The cluster does not exist or has no DNS endpoint.
    """
    here = plan.regions[region]
    name = f"projects/{cloud.project}/locations/{here.location}/clusters/{here.cluster_name}"
    return dns_endpoint(cloud.get(f"container.googleapis.com/v1/{name}"))


def _open(
    surroundings: Surroundings, folder: Path, project: ProjectPlan, name: str
) -> automation.Stack:
    """Return the stack of the job; its state is in the folder until it is removed."""
    work, state = folder / "work", folder / "state"
    for each in (work, state):
        each.mkdir(parents=True, exist_ok=True)
    workspace = automation.LocalWorkspace(
        work_dir=str(work),
        env_vars={
            **surroundings.environment,
            "PULUMI_BACKEND_URL": f"file://{state}",
            "PULUMI_CONFIG_PASSPHRASE": "",  # the state has no secrets
        },
        project_settings=automation.ProjectSettings(PROJECT, "python"),
        pulumi_command=automation.PulumiCommand(root=str(surroundings.cli.parent.parent)),
    )
    stack = automation.Stack.create_or_select(f"{project.environment}-{name}", workspace)
    stack.set_all_config({"gcp:project": automation.ConfigValue(project.id)})
    return stack


def _model(target: Target) -> str:
    """Return the model of the weights; for a draft, the model that it drafts for."""
    return target.name.partition("/")[0]


def _done(change: changes.Change) -> None:
    console.print(f"done: {change}", markup=False, soft_wrap=True)
