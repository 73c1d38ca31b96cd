"""The table of environment variables has all that the programs read."""

import re

from scripts.docs.environment import environment_page
from scripts.terminal.variables import INTERNAL, OF_CI, VARIABLES
from twin.host.paths import REPOSITORY

NAME = re.compile(r"(?<!_)GKE_INFERENCE_[A-Z_]+")
FOLDERS = (
    "bench", "components", "infra", "planner", "policies", "scripts", "simulator", "twin",
    "workloads", "docs/examples",
)  # fmt: skip


def read_names():
    """Return the names in the sources of the programs and the CI examples, without tests."""
    found = set()
    for folder in FOLDERS:
        for file in (REPOSITORY / folder).rglob("*"):
            is_source = file.suffix in {".py", ".go", ".yml", ".yaml"} and "tests" not in file.parts
            if is_source and "vendor" not in file.parts and file.is_file():
                found.update(NAME.findall(file.read_text(errors="replace")))
    return found


def public_names():
    return {name for each in (*VARIABLES, *OF_CI) for name in each.name.split(", ")}


def test_each_variable_that_a_program_names_is_in_the_table_or_set_by_a_program():
    others = {name for name in read_names() - public_names() if not name.startswith(INTERNAL)}
    assert others == set()


def test_each_variable_of_the_table_is_one_that_a_program_names():
    ours = {name for name in public_names() if name.startswith("GKE_INFERENCE_")}
    assert ours <= read_names()


def test_each_variable_is_on_the_page_once():
    text = environment_page()
    for name in public_names():
        assert text.count(f"`{name}`") == 1
