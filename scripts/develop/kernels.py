"""`gke-inference kernels`: tunes the block sizes of attention kernels and reports the results."""

import datetime
import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.shared.kernel_programs import run_kernels
from scripts.terminal.console import CommandError, console, step
from twin.host.paths import REPOSITORY

_CACHE = REPOSITORY / "build" / "kernels" / "code-sizes.json"
_PAGE = REPOSITORY / "docs" / "kernels.md"
_BEGIN, _END = "<!-- kernels report: begin -->", "<!-- kernels report: end -->"


class Chip(StrEnum):
    """Generations of TPU that kernels are tuned for."""

    V5E = "v5e"
    V6E = "v6e"


kernels = typer.Typer()


@kernels.callback()
def kernels_group() -> None:
    """Tune the attention kernels with the TPU compiler, and report its results."""


@kernels.command()
def tune(
    chip: Annotated[Chip, typer.Option(help="Generation of the TPU.")] = Chip.V6E,
    shape: Annotated[
        list[str] | None, typer.Option(help="Only this shape; repeat for more. Default: all.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time the best choices on this machine's TPU.")
    ] = False,
) -> None:
    """Choose the block sizes of attention with the TPU compiler."""
    names = [word for name in shape or [] for word in ("--shape", name)]
    flags = ["--measure"] if measure else []
    with step(f"Tuning attention for {chip.value}"):
        written = run_kernels(
            "tune", "--chip", chip.value, "--cache", str(_CACHE), *names, *flags, on_tpu=measure
        )
    for one in json.loads(written):
        console.print(f"  {one['name']:<24}{one['blocks']:<16}{one['estimate_ms']:.3f} ms")


@kernels.command()
def report() -> None:
    """Compile every choice again, and write the results to docs/kernels.md."""
    with step("Compiling every choice"):
        found = [
            json.loads(run_kernels("report", "--chip", chip.value, "--cache", str(_CACHE)))
            for chip in (Chip.V6E, Chip.V5E)
        ]
    write_report(found)
    console.print(f"wrote {_PAGE.relative_to(REPOSITORY)}")


def write_report(found: list[dict[str, Any]], page: Path = _PAGE) -> None:
    """Write the tables of the report between the markers of the page."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    if not tail:
        raise CommandError(f"{page}: must have the markers {_BEGIN} and {_END}")
    page.write_text(f"{head}{_BEGIN}\n{tables(found)}{_END}{tail}", encoding="utf-8")


def tables(found: list[dict[str, Any]]) -> str:
    """Return the report as Markdown."""
    day = datetime.date.today().isoformat()
    first = found[0]
    out = [
        f"`gke-inference kernels report`, {day}, jax {first['jax']}, libtpu {first['libtpu']}.",
        "",
        "| chip | shape | blocks | source | rejected "
        "| estimate, ms | default, ms | ratio | measured |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for part in found:
        for one in part["attention"]:
            ratio = one["default_ms"] / one["estimate_ms"]
            refused = f"{one['refused']} of {one['tried']}"
            out.append(
                f"| {part['generation']} | {one['name']}: {one['shape']} | {one['blocks']} "
                f"| {one['reason']} | {refused} | {one['estimate_ms']:.3f} "
                f"| {one['default_ms']:.3f} | {ratio:.1f} | {one['measured_ms'] or 'no'} |"
            )
    error = first["estimate"]
    out += [
        "",
        f"Estimate compared with {error['points']} published times of a v6e: median error "
        f"{error['median']:.1%}, maximum {error['largest']:.1%}. " + _ranks(first["ranking"]),
        "",
        "| chip | operation | form | MB moved | share of reference "
        "| MB temporary | estimated cycles |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in found:
        base: dict[str, float] = {}
        for one in part["rotary"]:
            base.setdefault(one["what"], one["bytes_moved"])
            out.append(
                f"| {part['generation']} | {one['what']} | {one['form']} "
                f"| {one['bytes_moved'] / 1e6:.0f} | {one['bytes_moved'] / base[one['what']]:.0%} "
                f"| {one['temporary_bytes'] / 1e6:.0f} | {one['cycles'] or 'none'} |"
            )
    return "\n".join(out) + "\n"


def _ranks(ranking: dict[str, Any]) -> str:
    places = sorted((int(place), count) for place, count in ranking["places"].items())
    ranks = ", ".join(f"{place} ({count}x)" for place, count in places)
    return (
        f"Rank of the published best among up to six choices in the estimate: {ranks}, "
        f"at most {ranking['behind']:.0%} behind the first."
    )
