"""`gke-inference traffic`: describes, converts and records traffic files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from gke_inference.catalogue.input_error import InputError
from infra.stack.problems import unread
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import StackOption
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.output_files import check_output
from scripts.terminal.tables import Listing, figure, print_table
from scripts.terminal.where import OnOption, Where
from simulator.demand import Pattern, Traffic, default_day, read
from simulator.demand.summary import Summary, pattern_from, summary_of

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Traffic file or folder, or default-day.")
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Model of all requests, or NAME=MODEL for a name in the file; repeat for more."
    ),
]
OutOption = Annotated[Path, typer.Option("--out", help="File to write.")]
_DEFAULT = "default-day"
_BAR = 40
_MOST_ROWS = 48

traffic = typer.Typer()


@traffic.callback()
def traffic_group() -> None:
    """Describe, convert and record traffic: requests by model and team over a day."""


@traffic.command()
def describe(
    file: FileArgument, model: ModelOption = None, output: OutputOption = Output.TABLE
) -> None:
    """Show the models, rates, lengths, shared prefixes and teams of a traffic file."""
    found = _summary(_read(file, model))
    if output.is_data:
        print_data(_plain(found), output)
    else:
        _print(found, file)


@traffic.command()
def convert(file: FileArgument, out: OutOption, model: ModelOption = None) -> None:
    """Write a traffic file as a pattern: rates by hour, lengths, teams and regions.

    A pattern is short, can be changed by hand, and has no request of the file.
    """
    check_output("--out", out)
    found = _summary(_read(file, model))
    document = pattern_from(found).model_dump(mode="json", exclude_defaults=True)
    text = yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=100)
    out.write_text(text, encoding="utf-8")
    console.print(f"{out}: {found.requests:,} requests as a pattern", soft_wrap=True)


@traffic.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of patterns, for editors."""
    print_data(Pattern.model_json_schema(), Output.JSON)


@traffic.command()
def record(
    out: OutOption,
    stack: StackOption = "local",
    since: Annotated[str, typer.Option(help="How far to look back, such as 7d or 12h.")] = "1d",
    on: OnOption = Where.TWIN,
) -> None:
    """Write a traffic file from the usage records of a platform. It has no prompts and no keys."""
    from scripts.client_keys import documents  # noqa: PLC0415 - the other commands need no stack
    from scripts.client_keys.documents import KeyProblem  # noqa: PLC0415
    from scripts.clients import records  # noqa: PLC0415
    from scripts.shared.google_cloud import CloudError  # noqa: PLC0415
    from scripts.traffic.recording import write  # noqa: PLC0415

    check_output("--out", out)
    try:
        begin = documents.utc_now() - documents.lifetime_of("--since", since)
        plan = records.plan_with_teams(stack)
        count = write(records.of_plan(plan, begin, cloud=on.is_cloud), out)
    except (CloudError, KeyProblem) as error:
        raise CommandError(str(error)) from None
    if not count:
        raise CommandError(
            f"--since: must include answered requests, got {since!r}: there are none"
        )
    console.print(f"{out}: {count:,} requests", soft_wrap=True)


def _read(file: str, given: list[str] | None) -> Traffic:
    only, renamed = names_of(given)
    if file == _DEFAULT:
        if renamed:
            raise CommandError("--model: must be a name for default-day, got NAME=MODEL")
        return default_day({only or "model": 1.0})
    try:
        return read(Path(file), renamed, only)
    except InputError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(
            f"FILE: must be a readable file, a folder or {_DEFAULT}, got {file!r}: {unread(error)}"
        ) from None


def names_of(given: list[str] | None) -> tuple[str | None, Mapping[str, str]]:
    """Return the model of all requests, and the models by the names in a file.

    Raises:
        CommandError: Both are given, or several for all.
    """
    plain = [each for each in given or () if "=" not in each]
    pairs = [each.split("=", 1) for each in given or () if "=" in each]
    if len(plain) > 1 or (plain and pairs) or any(not left or not right for left, right in pairs):
        raise CommandError(
            "--model: must be one model, or NAME=MODEL once or more, got "
            f"{', '.join(given or ())!r}"
        )
    return (plain[0] if plain else None), dict(pairs)


def _summary(found: Traffic) -> Summary:
    try:
        return summary_of(found)
    except InputError as error:  # a file that changed since it was checked
        raise CommandError(str(error)) from None


def _print(found: Summary, file: str) -> None:
    table = Listing(
        "MODEL", figure("REQUESTS"), figure("PER SECOND"), figure("GAP CV"), figure("PROMPT MEAN"),
        figure("P50"), figure("P99"), figure("ANSWER MEAN"), figure("P50"), figure("P99"),
        figure("SHARED", spare=1),
        title=f"{file}: {found.requests:,} requests in {found.seconds / 3600:.2f} h",
    )  # fmt: skip
    for name, each in found.models.items():
        cv = each.gap_cv
        table.add_row(
            name, f"{each.requests:,}", f"{each.requests / max(found.seconds, 1):.3f}",
            "-" if cv is None else f"{cv:.2f}",
            f"{each.prompts.mean:,.0f}", f"{each.prompts.percentile(50):,}",
            f"{each.prompts.percentile(99):,}", f"{each.outputs.mean:,.0f}",
            f"{each.outputs.percentile(50):,}", f"{each.outputs.percentile(99):,}",
            f"{each.shared_share:.1%}",
        )  # fmt: skip
    print_table(table)
    _print_hours(found)
    peak = found.ten_minute_peak
    if peak is not None:
        console.print(f"Busiest ten minutes: {peak:.2f} times the mean.")
    for what, counts in (("team", found.teams), ("region", found.regions)):
        if counts:
            first = sorted(counts.items(), key=lambda item: -item[1])
            shown = ", ".join(
                f"{name or 'none'} {count / found.requests:.1%}" for name, count in first[:10]
            )
            rest = f" and {len(first) - 10} more" if len(first) > 10 else ""
            console.print(f"Requests by {what}: {shown}{rest}.")


def _print_hours(found: Summary) -> None:
    """Print a bar for each hour of the first two days."""
    rates = found.rates()
    highest = max(rates)
    table = Listing(figure("HOUR"), figure("PER SECOND"), "")
    for hour, rate in enumerate(rates[:_MOST_ROWS]):
        if hour and hour == len(rates) - 1 and not rate:
            continue  # traffic that ends with its last hour
        table.add_row(str(hour), f"{rate:.3f}", "█" * round(_BAR * rate / (highest or 1)))
    print_table(table)
    if len(rates) > _MOST_ROWS:
        console.print(f"{len(rates) - _MOST_ROWS} more hours: -o json has all.")


def _plain(found: Summary) -> dict[str, Any]:
    return {
        "requests": found.requests,
        "seconds": round(found.seconds, 3),
        "requests_per_second": round(found.rate, 6),
        "requests_per_second_by_hour": [round(rate, 6) for rate in found.rates()],
        "ten_minute_peak_to_mean": found.ten_minute_peak,
        "teams": found.teams,
        "regions": found.regions,
        "models": {
            name: {
                "requests": each.requests,
                "gap_cv": each.gap_cv,
                "prompt_tokens_mean": round(each.prompts.mean, 1),
                "prompt_tokens": each.prompts.percentiles() if each.requests else None,
                "output_tokens_mean": round(each.outputs.mean, 1),
                "output_tokens": each.outputs.percentiles() if each.requests else None,
                "shared_prefix_share": round(each.shared_share, 4),
                "requests_with_shared_prefix": each.grouped,
            }
            for name, each in found.models.items()
        },
    }
