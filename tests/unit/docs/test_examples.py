"""The YAML of the pages: each block marked `<!-- stack -->` is put into a stack and checked."""

import copy
import json
import re

import pytest
import yaml

from infra.reading.load import STACKS, parse, platform_of
from twin.host.paths import REPOSITORY

BLOCK = re.compile(r"^<!-- stack -->\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted((REPOSITORY / "docs").rglob("*.md"))


def blocks():
    for page in PAGES:
        for number, text in enumerate(BLOCK.findall(page.read_text()), start=1):
            yield pytest.param(text, id=f"{page.relative_to(REPOSITORY / 'docs')}#{number}")


def merged(base, change):
    """Return a mapping with another laid over it; lists and scalars are replaced."""
    result = copy.deepcopy(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def platform_with(text):
    change = yaml.safe_load(text)
    base = platform_of(STACKS / "Pulumi.local.yaml")
    return change, parse(json.dumps(merged(base, change)))


@pytest.mark.parametrize("text", list(blocks()))
def test_an_example_is_a_usable_part_of_a_stack(text):
    change, platform = platform_with(text)
    for name in change.get("models", {}):
        assert name in platform.models
    for name, capacity in change.get("capacity", {}).items():
        assert len(platform.capacity[name].rungs) == len(capacity.get("rungs", ()) or (1, 2, 3))


def test_an_example_with_a_mistake_would_be_refused():
    with pytest.raises(Exception, match="did you mean 'rungs'"):
        platform_with("capacity: {small: {rung: []}}")


@pytest.mark.parametrize("page", ["capacity.md", "storage.md"])
def test_the_pages_about_stacks_have_examples(page):
    assert len(BLOCK.findall((REPOSITORY / "docs" / page).read_text())) >= 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_marked_block_is_found(page):
    text = page.read_text()
    assert text.count("<!-- stack -->\n") == len(BLOCK.findall(text))
