"""The folders that a stranger opens say what lives there, what it may import and where to begin."""

import re

import pytest

from twin.host.paths import REPOSITORY

FOLDERS = [
    "bench",
    "components",
    "components/gke_inference",
    "infra",
    "planner",
    "policies",
    "scripts",
    "simulator",
    "stacks",
    "tests",
    "twin",
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
