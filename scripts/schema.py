"""`gke-inference schema`: writes the schema that editors check stack files against."""

from typing import Annotated

import typer

from infra.reading.schema import SCHEMA_FILE, is_current, schema_text
from scripts.console import CommandError, console


def schema(
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail when the file is out of date.")
    ] = False,
) -> None:
    """Write stacks/schema.json from the typed stack."""
    name = f"{SCHEMA_FILE.parent.name}/{SCHEMA_FILE.name}"
    if is_current():
        console.print(f"{name} is up to date")
        return
    if check:
        raise CommandError(f"{name} must be what the models say: run 'gke-inference schema'")
    SCHEMA_FILE.write_text(schema_text(), encoding="utf-8")
    console.print(f"{name} written")
