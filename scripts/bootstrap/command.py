"""`gke-inference bootstrap`: prepares a project for a stack, or undoes the preparation."""

from typing import Annotated

import typer

from infra.bootstrap.settings import Ci, Project, SettingsError, StackSettings
from infra.plan import Plan, resolve
from infra.plan.project import ProjectPlan
from infra.stack import Front, Images
from scripts.shared.google_cloud import CloudError
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import StackOption, check_region, stack_of
from scripts.terminal.where import OnOption, Where, say_where
from twin.host.paths import TwinPaths
from twin.pulumi.speedups import speed_up_imports


def bootstrap(
    stack: StackOption,
    ci: Annotated[
        str | None,
        typer.Option(
            help="Repository whose jobs may deploy without a key: github:OWNER/REPO or"
            " gitlab:GROUP/PROJECT, followed by @BRANCH if the branch is not main."
        ),
    ] = None,
    location: Annotated[
        str | None,
        typer.Option(help="Region of the state bucket and key. Default: the stack's first region."),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--undo", help="Delete what was prepared for the stack.")
    ] = False,
    on: OnOption = Where.TWIN,
    yes: Annotated[bool, typer.Option("--yes", help="Make the changes without asking.")] = False,
) -> None:
    """Prepare a Google Cloud project: state bucket, key for secrets, APIs, identity for CI."""
    try:
        if undo and (ci is not None or location is not None):
            option, value = ("--ci", ci) if ci is not None else ("--location", location)
            raise SettingsError(f"{option}: must not be used with --undo, got {value!r}")
        plan = resolve(stack_of(stack, with_digests=False))
        settings = settings_of(plan, stack, ci, location)
        _run(
            plan,
            settings,
            on,
            undo=undo,
            yes=yes,
            has_location=location is not None,
        )
    except (CloudError, SettingsError) as error:
        raise CommandError(str(error)) from None


def settings_of(plan: Plan, stack: str, ci: str | None, location: str | None) -> StackSettings:
    """Return the settings for preparing the project of a stack.

    Raises:
        SettingsError: `ci` does not name a repository.
        CommandError: The location is not a region.
    """
    if location is not None:
        check_region("--location", location)
    platform = plan.platform
    is_serving = not plan.has_clusters
    name = f"{platform.environment}-{platform.team}" if is_serving else platform.environment
    return StackSettings(
        stack=name,
        prefix=platform.prefix,
        location=location or next(iter(platform.regions)),
        ci=None if ci is None else Ci.parse(ci),
        has_apigee_apps=(apigee := platform.apigee()) is not None and bool(apigee.apps),
        has_armor=plan.guardrails.needs_armor,
        has_backends=plan.backends is not None,
        has_certificates=plan.front.certificates is not None,
        has_clients=plan.clients is not None,
        has_people=plan.front.people is not None,
        has_front_router=plan.front.router is not None,
        has_front=platform.gateway.front is Front.GLOBAL,
        has_fleet=platform.has_config_sync() or platform.gateway.has_fleet_gateway,
        has_pipelines=bool(plan.pipelines),
        has_streams=any(not each.is_kafka for each in plan.streams),
        has_tables=any(each.has_table for each in plan.streams),
        has_filestore=plan.storage.has_filestore,
        has_lustre=plan.storage.has_lustre,
        has_images=platform.images is not None,
        has_personal_images=platform.personal_images is not None,
        has_records=platform.gateway.dns is not None,
        services=() if is_serving else plan.project.services,
        upstream_secrets=() if is_serving else _shared_secrets(plan),
        layer=platform.layer.value,
        platform=platform.environment if is_serving else "",
        pulumi_stack=stack if is_serving else "",
    )


def _shared_secrets(plan: Plan) -> tuple[str, ...]:
    """Return the project's own secrets that the stack grants access to, each once."""
    keys = (each.settings.key_secret for each in plan.pipelines)
    upstream = _upstream_secrets(plan.platform.images, plan.project)
    return tuple(sorted(upstream | {key for key in keys if key is not None}))


def _upstream_secrets(images: Images | None, project: ProjectPlan) -> set[str]:
    """Return the project's own secrets with credentials of registries."""
    if images is None:
        return set()
    found = (each.secret.split("/") for each in images.upstream_credentials.values())
    own = {project.id, project.number}
    return {parts[3] for parts in found if parts[1] in own}


def _run(
    plan: Plan,
    settings: StackSettings,
    where: Where,
    *,
    undo: bool,
    yes: bool,
    has_location: bool,
) -> None:
    speed_up_imports()  # this needs ten of the hundreds of resources in the SDK of the provider
    # The engine's library takes a second to load, and no other command needs it.
    from scripts.bootstrap import changes, places, run  # noqa: PLC0415
    from scripts.shared import google_clients  # noqa: PLC0415

    platform = plan.platform
    project = Project(platform.project, platform.project_number, ())
    say_where(where, platform.project)
    dialog = run.Dialog(console, (lambda _: True) if yes else typer.confirm)
    with google_clients.plain_errors(), changes.one_line():
        if where.is_twin:
            place = places.on_twin(project, TwinPaths.default())
        else:
            place = places.in_google_cloud(project)
        if undo:
            run.undo(project, settings.stack, place, dialog)
            return
        prepared = run.prepare(project, settings, place, dialog, has_location=has_location)
    if prepared is not None:
        has_images = plan.has_clusters and bool(plan.images.unbuilt)
        dialog.show(next_commands(prepared, settings.stack, where, has_unbuilt_images=has_images))


def next_commands(
    project: Project, stack: str, where: Where = Where.CLOUD, *, has_unbuilt_images: bool = False
) -> list[str]:
    """Return the next commands, and the values for CI."""
    settings = next(each for each in project.stacks if each.stack == stack)
    name = settings.pulumi_stack or stack
    prepare = f"  gke-inference images prepare --stack {stack}{where.option}"
    lines = [
        "",
        "Next:",
        f"  pulumi login gs://{project.bucket}",
        f"  pulumi stack init {name} --secrets-provider gcpkms://{project.key(settings)}",
        *([prepare] if has_unbuilt_images else []),
        f"  pulumi preview -s {name}",
    ]
    if settings.ci is not None:
        lines += [
            "",
            "For CI:",
            f"  workload_identity_provider: {project.provider_for_jobs(settings.ci)}",
            f"  service_account (deploy):   {project.account(settings, 'deploy')}",
            f"  service_account (preview):  {project.account(settings, 'preview')}",
        ]
    if settings.ci is not None and settings.pulumi_stack:
        lines.append(f"  deployers of the team:      {project.account(settings, 'deploy')}")
    return lines
