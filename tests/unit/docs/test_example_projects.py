"""The Pulumi projects of the examples: none warns although nothing is wrong."""

from pathlib import Path

import pytest
import yaml

from twin.host.paths import REPOSITORY

PROJECTS = sorted((REPOSITORY / "docs" / "examples").rglob("Pulumi.yaml"))


@pytest.mark.parametrize(
    "file", [REPOSITORY / "Pulumi.yaml", *PROJECTS], ids=lambda file: file.parent.name
)
def test_a_program_that_names_every_project_itself_is_not_warned_of_a_missing_one(
    file: Path,
) -> None:
    settings = yaml.safe_load(file.read_text())["config"]
    assert settings["gcp:disableGlobalProjectWarning"] == {"value": True}
