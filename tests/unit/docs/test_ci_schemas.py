"""CI files against the schemas of their systems."""

import pytest
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

from tests.unit.docs.test_ci_files import PIPELINES, WORKFLOWS


@pytest.mark.parametrize(
    ("schema", "files"), [("github-workflows", WORKFLOWS), ("gitlab-ci", PIPELINES)]
)
def test_every_file_follows_the_schema_of_its_system(schema, files):
    arguments = ["--builtin-schema", f"vendor.{schema}", *map(str, files)]
    answer = CliRunner().invoke(check_jsonschema, arguments)
    assert answer.exit_code == 0, answer.output
