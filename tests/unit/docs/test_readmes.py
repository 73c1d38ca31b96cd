"""The folders that a stranger opens say what lives there, what it may import and where to begin."""

import re

import pytest

from twin.host.paths import REPOSITORY

FOLDERS = [
    "bench",
    "components",
    "components/gke_inference",
    "components/gke_inference/serving",
    "infra",
    "planner",
    "policies",
    "scripts",
    "simulator",
    "stacks",
    "tests",
    "twin",
    "twin/cluster",
    "workloads",
    "workloads/gateway",
]
_IN_CODE = re.compile(r"`([a-zA-Z_][\w./-]*/|[\w./-]+\.(?:py|go|yaml|json|md))`")


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_has_a_page_that_fits_a_screen(folder: str):
    text = (REPOSITORY / folder / "README.md").read_text()
    assert text.startswith("# ")
    assert len(text.splitlines()) <= 20
    assert "Begin with" in text


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_page_of_a_folder_names_files_that_exist(folder: str):
    named = set(_IN_CODE.findall((REPOSITORY / folder / "README.md").read_text()))
    missing = [
        name
        for name in named
        if not any(
            (base / name).exists()
            for base in (REPOSITORY / folder, REPOSITORY, REPOSITORY / "infra")
        )
    ]
    assert named
    assert missing == []


def test_the_table_of_what_is_on_the_edge_names_places_that_exist():
    table = (REPOSITORY / "SCOPE.md").read_text().partition("## On the edge")[2]
    named = set(re.findall(r"`([\w-]+/[\w./*-]+)`", table))
    bases = (REPOSITORY, REPOSITORY / "components" / "gke_inference")
    assert len(named) > 5
    assert [name for name in sorted(named) if not any([*base.glob(name)] for base in bases)] == []
