"""`gke-inference kernels`: tune the block sizes of attention, report what the compiler says."""

import datetime
import json
import subprocess
from pathlib import Path
from typing import Annotated, Any

import typer

from scripts.console import CommandError, console, step
from scripts.options import check_one
from twin.host.paths import REPOSITORY
from twin.host.python_environments import XLA, xla_environment

_CACHE = REPOSITORY / "build" / "kernels" / "code-sizes.json"
_PAGE = REPOSITORY / "docs" / "kernels.md"
_BEGIN, _END = "<!-- kernels report: begin -->", "<!-- kernels report: end -->"


def kernels(
    action: Annotated[str, typer.Argument(help="tune or report.")],
    chip: Annotated[str, typer.Option(help="Generation: v5e or v6e.")] = "v6e",
    shape: Annotated[
        list[str] | None, typer.Option(help="Tune this shape only; may be repeated.")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Time the best ones on this machine's TPU.")
    ] = False,
) -> None:
    """Choose block sizes of attention with the TPU compiler, or write what it says to the docs."""
    check_one("ACTION", action, ("tune", "report"))
    check_one("--chip", chip, ("v5e", "v6e"))
    if action == "tune":
        names = [word for name in shape or [] for word in ("--shape", name)]
        flags = ["--measure"] if measure else []
        with step(f"Tuning attention for {chip}"):
            written = run_kernels(
                "tune", "--chip", chip, "--cache", str(_CACHE), *names, *flags, on_tpu=measure
            )
        for one in json.loads(written):
            console.print(f"  {one['name']:<24}{one['blocks']:<16}{one['estimate_ms']:.3f} ms")
    else:
        with step("Compiling every choice"):
            found = [
                json.loads(run_kernels("report", "--chip", one, "--cache", str(_CACHE)))
                for one in ("v6e", "v5e")
            ]
        write_report(found)
        console.print(f"wrote {_PAGE.relative_to(REPOSITORY)}")


def run_kernels(*argv: str, given: str = "", on_tpu: bool = False) -> str:
    """Run `python -m kernels` where JAX is, and return what it prints.

    Args:
        argv: its arguments.
        given: its standard input.
        on_tpu: let JAX look for this machine's TPU.

    Raises:
        CommandError: it fails; the message is what it said last.
        twin.toolchain.ToolError: JAX is not installed.
    """
    environment = xla_environment()
    if on_tpu:
        del environment["JAX_PLATFORMS"]
    answer = subprocess.run(
        [XLA.python(), "-m", "kernels", *argv],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if answer.returncode:
        said = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
        raise CommandError(said[-1].removeprefix("error: ") if said else answer.stderr[-3000:])
    return answer.stdout


def write_report(found: list[dict[str, Any]], page: Path = _PAGE) -> None:
    """Put the tables of the report between the page's marks, with the date and the command."""
    text = page.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    _, _, tail = rest.partition(_END)
    if not tail:
        raise CommandError(f"{page}: must have the marks {_BEGIN} and {_END}")
    page.write_text(f"{head}{_BEGIN}\n{tables(found)}{_END}{tail}", encoding="utf-8")


def tables(found: list[dict[str, Any]]) -> str:
    """Return the report as Markdown."""
    day = datetime.date.today().isoformat()
    first = found[0]
    out = [
        f"`gke-inference kernels report`, {day}, jax {first['jax']}, libtpu {first['libtpu']}.",
        "",
        "| chip | shape | blocks | why | refused | estimate ms | default's | ratio | measured |",
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
        f"The estimate against {error['points']} published times of a v6e: median error "
        f"{error['median']:.1%}, largest {error['largest']:.1%}. " + _ranks(first["ranking"]),
        "",
        "| chip | what | form | MB moved | of reference | MB temporary | estimated cycles |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in found:
        base: dict[str, float] = {}
        for one in part["rotary"]:
            base.setdefault(one["what"], one["bytes_moved"])
            out.append(
                f"| {part['generation']} | {one['what']} | {one['form']} "
                f"| {one['bytes_moved'] / 1e6:.0f} | {one['bytes_moved'] / base[one['what']]:.0%} "
                f"| {one['temporary_bytes'] / 1e6:.0f} | {one['cycles'] or 'a kernel'} |"
            )
    return "\n".join(out) + "\n"


def _ranks(ranking: dict[str, Any]) -> str:
    places = sorted((int(place), count) for place, count in ranking["places"].items())
    said = ", ".join(f"{count} times in place {place}" for place, count in places)
    return (
        f"Of six choices, those that were measured best stand {said} of the estimate's order, "
        f"at most {ranking['behind']:.0%} behind its first."
    )
