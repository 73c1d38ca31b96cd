"""People who sign in with Google, in front of a model, as docs/sign-in.md says."""

import json
import socket
import ssl
import time
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from scripts.shared.engine import Engine
from tests.platform.example_checkout import checkout, output_of
from tests.platform.gate import until_keys_are_read
from twin.host.paths import TwinPaths
from twin.providers.gcp.effects import sign_in
from twin.world.capacity import GivenCertificate, World
from twin.world.store import list_resources

# twin/tests/running/front/test_front_requests.py has the sign-in alone, and
# tests/running/callout/test_identity.py the gate with its tokens
pytestmark = [pytest.mark.needs_tools, pytest.mark.soak, pytest.mark.timeout(1200)]

MODEL = "qwen3-0.6b"
STACK = ("--stack", "client-certificates")
PEOPLE, PROGRAMS = "chat.example.com", "models.example.com"
PORT = 8443
TOKENS = 5
MEMBER = {sign_in.PERSON: "ada@example.com,support@example.com"}
STRANGER = {sign_in.PERSON: "eve@example.com,sales@example.com"}
KNOWN_SECONDS = 60.0
"""The gate's configuration is a volume of its pods."""
BETWEEN_SECONDS = 5.0
"""Twenty tokens that the gate does not accept in a minute would make it answer with 429."""
WRITTEN_SECONDS = 30.0
"""The gate writes a record once the answer has ended; each look at them takes seconds."""


@dataclass(frozen=True)
class Site:
    """The load balancer, as a browser or a program uses it."""

    address: str
    authority: Path

    def ask(self, host: str, **headers: str) -> tuple[int, Any]:
        """Send a prompt; return the status, and the answer or its text."""
        trusted = ssl.create_default_context(cafile=str(self.authority))
        connection = HTTPConnection(host, PORT, timeout=20)
        plain = socket.create_connection((self.address, PORT), timeout=20)
        connection.sock = trusted.wrap_socket(plain, server_hostname=host)
        messages = [{"role": "user", "content": "Who am I?"}]
        body = json.dumps({"model": MODEL, "messages": messages, "max_tokens": TOKENS})
        try:
            sent = {"Content-Type": "application/json", **headers}
            connection.request("POST", "/v1/chat/completions", body, sent)
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.headers.get_content_type() == "application/json"
            return answer.status, json.loads(text) if is_json else text
        finally:
            connection.close()


def identifier(paths: TwinPaths) -> str:
    """Return the ID of the backend service of people, as `preflight --on` shows it."""
    (found,) = [
        str(each.outputs["generatedId"])
        for each in list_resources(paths)
        if each.type == "gcp:compute/backendService:BackendService"
        and each.name.endswith("-people")
    ]
    return found


def used(folder: Path, paths: TwinPaths) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return requests and tokens of answers by team and subject."""
    by = ("--by", "team", "--by", "subject", "-o", "json")
    rows = json.loads(output_of(folder, paths, "clients", "usage", *STACK, *by))
    return {
        (row["team"], row["subject"]): (row["requests"], row["completion_tokens"]) for row in rows
    }


def until_used(folder: Path, paths: TwinPaths, expected: tuple[int, int], *client: str) -> None:
    """Wait until the records show these requests and tokens for a team and a subject."""
    limit = time.monotonic() + WRITTEN_SECONDS
    while (found := used(folder, paths)).get(client) != expected:
        assert time.monotonic() < limit, f"expected {client}: {expected}, found {found}"
        time.sleep(1.0)


def test_members_reach_a_model_after_the_sign_in_and_their_team_pays(
    tmp_path, paths, series_are_recorded
):
    folder = checkout(tmp_path / "checkout", "client-certificates")
    given = GivenCertificate(name="models-example-com", hostname="*.example.com")
    World(certificates=(given,)).save(paths.capacity_file)
    output_of(folder, paths, "up", *STACK)
    outputs = Engine(paths).outputs_of("client-certificates")
    site = Site(outputs["front"], paths.ca_bundle)

    assert site.ask(PEOPLE, **STRANGER) == (403, "You don't have access")
    status, refusal = site.ask(PEOPLE, **MEMBER)
    assert (status, refusal["error"]["code"]) == (401, "invalid_api_key"), "the gate has no ID yet"
    file = folder / "stacks" / "Pulumi.client-certificates.yaml"
    comment = "# backend_service: its ID, after the first `up`; until then, people get 401"
    assert comment in file.read_text()
    own = f'backend_service: "{identifier(paths)}"'
    file.write_text(file.read_text().replace(comment, own))
    output_of(folder, paths, "up", *STACK)
    limit = time.monotonic() + KNOWN_SECONDS
    while site.ask(PEOPLE, **MEMBER)[0] != 200:
        assert time.monotonic() < limit, "the gate does not know the backend service"
        time.sleep(BETWEEN_SECONDS)

    ada = sign_in.signed_headers(paths, "ada@example.com", "")["x-goog-authenticated-user-id"]
    status, answer = site.ask(PEOPLE, **MEMBER)
    assert (status, answer["usage"]["completion_tokens"]) == (200, TOKENS)
    assert site.ask(PEOPLE)[0] == 401
    assert site.ask(PEOPLE, Accept="text/html")[0] == 302, "a browser is led to the sign-in"
    until_used(folder, paths, (2, 2 * TOKENS), "support", ada)

    assert site.ask(PROGRAMS, **MEMBER)[0] == 401, "a session is no key"
    forged = sign_in.signed_headers(
        paths, "ada@example.com", "/projects/1/global/backendServices/1"
    )
    assert site.ask(PROGRAMS, **forged)[0] == 401, "a token for another service"
    before = used(folder, paths)  # `up` asked with keys of this team too
    key = output_of(folder, paths, "clients", "keys", "create", "search", *STACK).strip()
    until_keys_are_read(paths)
    assert site.ask(PROGRAMS, Authorization=f"Bearer {key}")[0] == 200
    requests, tokens = before["search", "-"]
    until_used(folder, paths, (requests + 1, tokens + TOKENS), "search", "-")
    assert used(folder, paths)["support", ada] == (2, 2 * TOKENS)
    series_are_recorded(paths, "client-certificates")
    assert "Nothing is left in the cloud." in output_of(folder, paths, "down")
