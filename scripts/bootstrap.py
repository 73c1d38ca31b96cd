"""`gke-inference bootstrap`: prepares a real project, and says first what it would do."""

from typing import Annotated

import typer

from scripts.bootstrap_cloud import CloudError
from scripts.bootstrap_project import Ci, Settings, SettingsError
from scripts.console import CommandError
from scripts.options import check_region, stack_of


def bootstrap(
    stack: Annotated[str, typer.Argument(help="Stack to prepare a project for, such as prod.")],
    ci: Annotated[
        str | None,
        typer.Option(
            help="Repository whose jobs may deploy without a key: github:OWNER/REPO or"
            " gitlab:GROUP/PROJECT, with @BRANCH where it is not main."
        ),
    ] = None,
    location: Annotated[
        str | None, typer.Option(help="Region of state bucket and key. Default: the stack's first.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
) -> None:
    """Prepare a Google Cloud project: state bucket, key for secrets, APIs, identity for CI."""
    # Google's clients take a second to load, and no other command needs them.
    from scripts import bootstrap_run  # noqa: PLC0415

    try:
        bootstrap_run.run(settings_of(stack, ci, location), yes=yes)
    except (CloudError, SettingsError) as error:
        raise CommandError(str(error)) from None


def settings_of(stack: str, ci: str | None, location: str | None) -> Settings:
    """Return what to prepare for a stack.

    Raises:
        SettingsError: `ci` says something that is no repository.
        CommandError: the location is no region, or the stack cannot be used.
    """
    platform = stack_of(stack, "STACK")
    if location is not None:
        check_region("--location", location)
    return Settings(
        stack=platform.environment,
        project=platform.project,
        project_number=platform.project_number,
        prefix=platform.prefix,
        location=location or next(iter(platform.regions)),
        ci=None if ci is None else Ci.parse(ci),
        has_images=platform.images is not None,
    )
