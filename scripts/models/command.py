"""`gke-inference models`: push, pull, list, verify, replicate and remove weights."""

from pathlib import Path
from typing import Annotated

import typer

from scripts.models import actions
from scripts.models.listing import as_data, print_list
from scripts.models.session import open_session, plain_errors
from scripts.models.uploads import PushOptions, push_to, push_version
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import STACK_HELP, StackOption
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_folder
from scripts.terminal.where import OnOption, Where
from workloads.engine.weights_manifest import check_version
from workloads.transfer.errors import Refused

_MOST_WORKERS = 64

MODEL_HELP = (
    "Model of the stack; NAME-VERSION for a canary, NAME/draft for a draft, "
    "NAME/adapters/ADAPTER for an adapter."
)
ModelOption = Annotated[str, typer.Option(help=MODEL_HELP)]
ModelsOption = Annotated[
    list[str] | None,
    typer.Option("--model", help="Only this model; repeat for more. Default: all."),
]
VersionOption = Annotated[
    str | None,
    typer.Option(help="Version. Default: the one that the stack uses."),
]
ParallelOption = Annotated[
    int, typer.Option(min=1, max=_MOST_WORKERS, help="Number of parallel requests.")
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
]
YesOption = Annotated[bool, typer.Option("--yes", help="Make the changes without asking.")]

models = typer.Typer()


@models.callback()
def models_group() -> None:
    """Manage the weights of a stack's models in its buckets."""


@models.command()
def push(
    stack: Annotated[str | None, typer.Option(help=f"{STACK_HELP} Required without --to.")] = None,
    model: Annotated[str | None, typer.Option(help=f"{MODEL_HELP} Required without --to.")] = None,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="SOURCE",
            help="Folder with the files, or the model's folder in the hub's cache.",
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Push to gs://BUCKET/FOLDER instead, for a program without a stack file."
        ),
    ] = None,
    from_hub: Annotated[
        str | None, typer.Option(help="ORGANIZATION/MODEL on the Hugging Face hub, as the source.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit on the hub. Default: main.")
    ] = None,
    token_secret: Annotated[
        str | None,
        typer.Option(
            help="Secret in Secret Manager with the hub's token. Default: the variable HF_TOKEN."
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(help="Name of the version. Default: 12 digits derived from the content."),
    ] = None,
    current: Annotated[
        bool,
        typer.Option("--current", help="Make it the current version, also where there is one."),
    ] = False,
    exclude: Annotated[
        list[str] | None,
        typer.Option(help="Pattern of files to leave out, such as 'original/*'; repeat for more."),
    ] = None,
    direct: Annotated[
        bool,
        typer.Option("--direct", help="Upload to every region instead of copying between regions."),
    ] = False,
    parallel: ParallelOption = 8,
    part_size: Annotated[
        int, typer.Option(min=1, max=4096, help="Size of each part of a large file, in MiB.")
    ] = 64,
    in_cluster: Annotated[
        bool,
        typer.Option("--in-cluster", help="Run as a job in a cluster of the stack."),
    ] = False,
    snapshot: Annotated[
        str | None,
        typer.Option(
            help="With --in-cluster: also fill a Hyperdisk ML disk and take this snapshot."
        ),
    ] = None,
    zone: Annotated[
        str | None, typer.Option(help="Zone of the disk. Default: the first zone of the region.")
    ] = None,
    on: OnOption = Where.TWIN,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
) -> None:
    """Upload a model or an adapter to the bucket of each region that serves it.

    After an interruption, run the same command again: it does not resend what has arrived.
    """
    options = PushOptions(
        source=source,
        repository=from_hub,
        revision=revision,
        token_secret=token_secret,
        version=version,
        makes_current=current,
        exclude=tuple(exclude or ()),
        is_direct=direct,
        part_bytes=part_size * 2**20,
        is_dry_run=dry_run,
        snapshot=snapshot,
        zone=zone,
    )
    with plain_errors():
        options.check(on_twin=on.is_twin, in_cluster=in_cluster)
        if to is not None:
            options.check_without_stack(in_cluster=in_cluster)
    if to is not None:
        for option, value in (("--stack", stack), ("--model", model)):
            if value is not None:
                raise CommandError(f"{option}: must be omitted with --to, got {value!r}")
        push_to(to, options, on, workers=parallel)
        return
    if stack is None or model is None:
        raise CommandError(f"{'--stack' if stack is None else '--model'}: is required without --to")
    if in_cluster:
        # deploying a job loads Pulumi, which takes a second
        from scripts.models.in_cluster import push_in_cluster  # noqa: PLC0415

        push_in_cluster(stack, model, options, on, yes=yes)
        return
    with open_session(stack, on, workers=parallel) as session:
        push_version(session, session.target(model), options)


@models.command()
def sample(
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Folder for the files; created if needed.")
    ],
    adapter: Annotated[
        bool, typer.Option("--adapter", help="Write a LoRA adapter of the sample model instead.")
    ] = False,
) -> None:
    """Write a sample model with a million parameters to a folder, for trying a push."""
    check_folder("TARGET", target)
    # numpy takes a moment to load, and no other command needs it
    from twin.engines.real.tiny_model import write_adapter, write_model  # noqa: PLC0415

    if adapter:
        write_adapter(target)
    else:
        write_model(target)
    console.print(f"{target}: {len(list(target.iterdir()))} files", markup=False, soft_wrap=True)


@models.command()
def pull(
    stack: StackOption,
    model: ModelOption,
    target: Annotated[
        Path, typer.Argument(metavar="TARGET", help="Folder for the files; created if needed.")
    ],
    version: VersionOption = None,
    region: Annotated[
        str | None,
        typer.Option(help="Region to read from. Default: the first one with the version."),
    ] = None,
    parallel: ParallelOption = 8,
    on: OnOption = Where.TWIN,
) -> None:
    """Download a version to a folder on this machine and check every file."""
    _check(version)
    if target.exists() and not target.is_dir():
        raise CommandError(f"TARGET: must be a folder, got {str(target)!r}")
    with open_session(stack, on, workers=parallel) as session:
        actions.pull_version(session, session.target(model), version, region, target)


@models.command("list")
def list_models(
    stack: StackOption,
    model: ModelsOption = None,
    on: OnOption = Where.TWIN,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the versions in each region: size, complete or half-uploaded, and which is current."""
    with open_session(stack, on, workers=1) as session:
        rows = actions.rows(session, actions.chosen(session, model))
    if output.is_data:
        print_data(as_data(rows), output)
    else:
        print_list(rows)


@models.command()
def verify(
    stack: StackOption,
    model: ModelsOption = None,
    version: VersionOption = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also read every byte and compare SHA-256.")
    ] = False,
    parallel: ParallelOption = 8,
    on: OnOption = Where.TWIN,
) -> None:
    """Compare the objects in each region with the manifest. Exits 1 if anything differs."""
    _check(version)
    if version is not None and len(model or ()) != 1:
        raise CommandError("--version: must be used with exactly one --model")
    with open_session(stack, on, workers=parallel) as session:
        names = actions.chosen(session, model)
        wrong = actions.verify_versions(session, names, version, is_deep=deep)
    for line in wrong:
        console.print(line, markup=False, soft_wrap=True)
    if wrong:
        raise typer.Exit(ExitCode.CHECK_FAILED)


@models.command()
def replicate(
    stack: StackOption,
    model: ModelOption,
    version: VersionOption = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from", help="Region to copy from. Default: the first one with the version."
        ),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option(help="Region to copy to; repeat for more. Default: every other region."),
    ] = None,
    current: Annotated[
        bool,
        typer.Option("--current", help="Make it the current version, also where there is one."),
    ] = False,
    parallel: ParallelOption = 8,
    on: OnOption = Where.TWIN,
) -> None:
    """Copy a version between the regions of a stack, inside Cloud Storage."""
    _check(version)
    with open_session(stack, on, workers=parallel) as session:
        actions.replicate_version(
            session, session.target(model), version, source, to or (), makes_current=current
        )


@models.command("rm")
def remove(
    stack: StackOption,
    model: ModelOption,
    version: Annotated[str, typer.Option(help="Version to remove from every region.")],
    force: Annotated[
        bool,
        typer.Option("--force", help="Remove it even if it is the current version or in use."),
    ] = False,
    parallel: ParallelOption = 8,
    on: OnOption = Where.TWIN,
    yes: YesOption = False,
) -> None:
    """Remove a version, or the leftovers of an interrupted push, from every region."""
    _check(version)
    with open_session(stack, on, workers=parallel) as session:
        actions.remove_version(
            session, session.target(model), version, is_forced=force, ask=not yes
        )


def _check(version: str | None) -> None:
    if version is None:
        return
    with plain_errors():
        try:
            check_version(version, "--version")
        except ValueError as error:
            raise Refused(str(error)) from None
