"""`gke-inference schema`: the JSON schema with which editors check stack files."""

import typer

from infra.reading.schema import SCHEMA_FILE, is_current, schema_text
from scripts.terminal.console import console
from scripts.terminal.exit_codes import ExitCode
from scripts.terminal.options import CheckOption


def schema(
    check: CheckOption = False,
) -> None:
    """Write stacks/schema.json, the schema of stack files."""
    name = f"{SCHEMA_FILE.parent.name}/{SCHEMA_FILE.name}"
    if is_current():
        console.print(f"{name} is up to date")
        return
    if check:
        console.print(f"{name} is out of date: run gke-inference schema")
        raise typer.Exit(ExitCode.CHECK_FAILED)
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    console.print(f"wrote {name}")
