"""The messages in the table of docs/troubleshooting.md are messages that programs print."""

import re

import pytest

from twin.host.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "troubleshooting.md"
SOURCES = (
    "bench",
    "components",
    "infra",
    "planner",
    "scripts",
    "simulator",
    "twin",
    "workloads",
    "Makefile",
)
OF_OTHERS = (
    "is already being used by",  # Google Cloud
    "did not begin responding to RPC connections",  # Pulumi, as the next two
    "the stack is currently locked by",
    "marked for protection",
    "cannot be deleted because it is protected",
    "cannot import name",  # Python
    "no healthy upstream",  # Envoy
)
_ROW = re.compile(r"^\| (.*?) \|", re.MULTILINE)
_QUOTED = re.compile(r"`([^`]+)`")
_CHANGING = re.compile(
    r"…|\d\S* |'[^']*'|\[[a-z]+\]|one of .*|; did you mean|: cannot|\b(?:prod|local|up of|120)\b"
)


def fragments() -> list[str]:
    """Return the fixed parts of each quoted message, long enough to search for."""
    messages = [text for row in _ROW.findall(PAGE.read_text()) for text in _QUOTED.findall(row)]
    parts = [part.strip(" ;:,?") for text in messages for part in _CHANGING.split(text)]
    return sorted({part for part in parts if len(part) >= 12})


@pytest.fixture(scope="module")
def source() -> str:
    files = [
        file
        for name in SOURCES
        for file in ([REPOSITORY / name] if "." in name else (REPOSITORY / name).rglob("*"))
        if file.suffix in (".py", ".go") or file.name == "Makefile"
    ]
    text = " ".join(file.read_text() for file in [*files, REPOSITORY / "Makefile"])
    return re.sub(r'"\s*f?"', "", text)  # a message may go over several lines


def test_there_are_messages_to_look_for():
    assert len(fragments()) > 10


@pytest.mark.parametrize("part", fragments())
def test_a_message_of_the_page_is_one_that_a_program_prints(source, part):
    assert part in OF_OTHERS or part in source
