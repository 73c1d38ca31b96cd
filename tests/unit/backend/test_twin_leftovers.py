"""Leftovers of the twin."""

import re
from pathlib import Path

from scripts.backend.twin_leftovers import CLOUD_ITSELF

TWIN = Path(__file__).parents[3] / "twin"
SERVERS = re.compile(r"LoopbackServer\(NAME|processes\.ensure\(\s*paths, NAME")
NAME = re.compile(r'^NAME(?:: Final)? = "(.+)"$', re.MULTILINE)


def test_no_server_of_the_cloud_itself_is_a_leftover():
    sources = [file.read_text() for file in TWIN.rglob("*.py")]
    servers = {name for text in sources if SERVERS.search(text) for name in NAME.findall(text)}
    assert "api-endpoint" in servers
    assert servers <= set(CLOUD_ITSELF)
