"""`gke-inference check`: invariants of rendered objects, from this blueprint or any other."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from policies.checker.checker import Report, check_objects
from policies.checker.rules import invariants
from policies.framework.finding import Finding, Verdict
from policies.framework.rule import Invariant
from policies.objects.documents import UnreadableError, sources
from policies.objects.world import World
from scripts.terminal.console import CommandError, console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import check_words
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import Column, Listing, print_table, prose


def chosen(names: list[str]) -> list[Invariant[World]]:
    """Return the invariants with the given names; without names, all.

    Raises:
        CommandError: A name is unknown.
    """
    known = invariants()
    check_words("--rule", names, known)
    return [known[name].rule for name in names or known]


def as_data(report: Report) -> dict[str, Any]:
    """Return a report as data: counts, and every finding with all its fields."""
    counts = {str(verdict): len(report.of(verdict)) for verdict in Verdict}
    return {
        "objects": report.objects,
        "rules": report.rules,
        **counts,
        "findings": [asdict(finding) for finding in report.findings],
    }


def _table(findings: list[Finding]) -> Listing:
    table = Listing(
        "OBJECT", "RULE", Column("FIELD", spare=1), prose("VALUE", spare=2), prose("WHY", spare=3),
        prose("FIX", spare=3), is_spaced=True,
    )  # fmt: skip
    for each in findings:
        place = f"{each.object}\n{each.world or each.file}"
        table.add_row(place, each.rule, each.field, each.value, each.why, each.fix)
    return table


def _print(report: Report, *, every_unknown: bool) -> None:
    broken, open_ = report.of(Verdict.BROKEN), report.of(Verdict.UNKNOWN)
    if broken:
        print_table(_table(broken))
    if open_ and every_unknown:
        console.print("Undecided:")
        print_table(_table(open_))
    elif open_:
        counts = Counter((each.rule, each.why) for each in open_)
        console.print("Undecided, because of missing information (--unknown lists the objects):")
        for (rule, why), count in sorted(counts.items()):
            console.print(f"  {rule}: {why} ({count})", markup=False, soft_wrap=True)
    console.print(
        f"{report.objects} objects, {report.rules} rules: {len(broken)} broken, "
        f"{len(open_)} undecided"
    )


def _list() -> None:
    table = Listing("RULE", Column("SUBJECT"), prose("WHAT MUST HOLD"), prose("SOURCE", spare=1))
    for name, listed in invariants().items():
        table.add_row(name, listed.subject, listed.rule.description, listed.rule.reference)
    print_table(table)


def check(
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATHS", help="Folders or YAML files, such as build/STACK after `render`."
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
    rule: Annotated[
        list[str] | None, typer.Option(help="Only this rule; repeat for more. Default: all.")
    ] = None,
    list_rules: Annotated[bool, typer.Option("--list", help="List the rules and exit.")] = False,
    unknown: Annotated[
        bool, typer.Option("--unknown", help="List every object for which a rule is undecided.")
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Also exit 1 if a rule is undecided.")
    ] = False,
) -> None:
    """Check that rendered objects are consistent with each other. Exits 1 if they are not."""
    if list_rules:
        _list()
        return
    if not paths:
        raise CommandError("PATHS: is required (folders or YAML files, such as build/prod)")
    try:
        read = sources(paths)
    except UnreadableError as error:
        raise CommandError(str(error)) from error
    report = check_objects(read, chosen(rule or []))
    if output.is_data:
        print_data(as_data(report), output)
    else:
        _print(report, every_unknown=unknown)
    if not report.is_sound or (strict and report.findings):
        raise typer.Exit(ExitCode.CHECK_FAILED)
