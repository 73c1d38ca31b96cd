"""The index of error messages has what the code can say."""

import json
import re

import pytest

from infra.reading.load import STACKS, parse, platform_of
from infra.stack.problems import StackError
from scripts.docs.errors import errors_page
from twin.host.paths import REPOSITORY

CODE = """
_RULE = "must be red or green"


def refuse(name, value, is_late):
    rule = "must be early today" if is_late else _RULE
    other = "must be a small number"
    raise InputError(join("models", name), rule, value)
    raise InputError("limit", other + f" below {value}", None)
    raise InputError(name, name, value)
    if is_late:
        rule = "must be green at night"
        raise InputError("light", rule, value)
    rule = "must be red by day"
    raise InputError("light", rule, value)
    raise CommandError(f"--model: must be a model, got {name!r}")
"""


def test_a_message_is_listed_with_its_variants_and_without_what_only_a_run_knows(tmp_path):
    folder = tmp_path / "infra"
    folder.mkdir()
    (folder / "rules.py").write_text(CODE)
    listed = [line for line in errors_page(tmp_path).splitlines() if line.startswith("- ")]
    assert listed == [
        "- `light: must be green at night, got …`",
        "- `light: must be red by day, got …`",
        "- `limit: must be a small number below …`",
        "- `models.…: must be early today, got …`",
        "- `models.…: must be red or green, got …`",
        "- `--model: must be a model, got …`",
    ]


@pytest.mark.parametrize(
    "change",
    [{"clients": None}, {"delivery": {"kind": "gitops"}}, {"layer": "platform"}],
)
def test_a_refused_stack_is_found_by_its_message(change):
    document = platform_of(STACKS / "Pulumi.prod.yaml")
    changed = {key: value for key, value in (document | change).items() if value is not None}
    with pytest.raises(StackError) as refused:
        parse(json.dumps(changed))
    page = (REPOSITORY / "docs" / "reference" / "errors.md").read_text()
    listed = re.findall(r"^- `+ ?(?:\S+: )?(.*?) ?`+$", page, re.MULTILINE)
    patterns = [re.compile(".*".join(map(re.escape, one.split("…")))) for one in listed]
    found = [
        problem
        for problem in refused.value.problems
        if any(each.match(problem.message) for each in patterns)
    ]
    assert found == list(refused.value.problems)
