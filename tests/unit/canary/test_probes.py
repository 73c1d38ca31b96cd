"""Probes of the quality of a canary's answers."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any

import pytest

from scripts.canary import command
from scripts.canary.probes import Probe, Reply, asker, compare_probes, read_probes
from scripts.terminal.console import CommandError

SUM = Probe(prompt="17 + 25?", expect="^42$")
YEAR = Probe(prompt="Lovelace's year of birth?", expect="1815")


def asked_of(answers):
    """Return a function that answers from a table of (version, prompt)."""

    def ask(probe, version):
        found = answers[version, probe.prompt]
        return found if isinstance(found, Reply) else Reply(found)

    return ask


def table(canary_sum, canary_year, stable_sum="42", stable_year="In 1815."):
    return {
        ("v2", SUM.prompt): canary_sum,
        ("v2", YEAR.prompt): canary_year,
        ("stable", SUM.prompt): stable_sum,
        ("stable", YEAR.prompt): stable_year,
    }


def lost(*answers, **more):
    found = compare_probes((SUM, YEAR), "v2", "stable", asked_of(table(*answers, **more)))
    return [one.probe for one in found.lost]


def test_a_canary_loses_what_only_the_stable_version_answers_as_expected():
    assert lost("42", "1815") == []
    assert lost("42!", "1815") == [SUM]
    assert lost("42", Reply("", "HTTP 400 too long")) == [YEAR]
    assert lost("41", "1816", stable_year="unknown") == [SUM]


def test_only_probes_that_the_stable_version_passes_are_compared():
    answers = asked_of(table("41", "1816", stable_year="unknown"))
    found = compare_probes((SUM, YEAR), "v2", "stable", answers)
    assert (found.compared, [one.probe for one in found.lost]) == (1, [SUM])


@pytest.mark.parametrize(
    ("year", "problem"),
    [
        ("unknown", "must have a probe that the stable version passes, got none of 2; the last"),
        (Reply("", "HTTP 401 no key"), "must be answered by the stable version, got 1 refusals;"),
    ],
)
def test_probes_that_the_stable_version_refuses_or_fails_altogether_are_refused(year, problem):
    with pytest.raises(CommandError, match=f"^--probes: {problem}"):
        lost("42", "1815", stable_sum="43", stable_year=year)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prompt: a", "must be a list of one probe or more"),
        ("[]", "must be a list of one probe or more"),
        ("- {prompt: a, expect: '('}", "[0].expect: must be a regular expression: missing ), "),
        ("- {prompt: a, expect: b}\n- {prompt: a}", "[1].expect: Field required, got "),
        (
            "- {prompt: a, expect: b, tokens: 3}",
            "[0].tokens: Extra inputs are not permitted, got 3",
        ),
        (
            "- {prompt: '', expect: b}",
            "[0].prompt: String should have at least 1 character, got ''",
        ),
        ("- [", "must be YAML: "),
        ("\\xff", "must be "),
    ],
)
def test_a_wrong_file_is_refused_with_the_probe_and_the_field(tmp_path, text, problem):
    file = tmp_path / "probes.yaml"
    file.write_bytes(text.encode("latin-1").decode("unicode_escape").encode("latin-1"))
    with pytest.raises(CommandError, match=r"^--probes: ") as refused:
        read_probes(file)
    assert problem in str(refused.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(CommandError, match=r"^--probes: .*gone\.yaml: No such file or directory$"):
        read_probes(tmp_path / "gone.yaml")


def test_a_file_has_prompts_with_their_expected_answers(tmp_path):
    file = tmp_path / "probes.yaml"
    file.write_text(
        "- {prompt: '17 + 25?', expect: '^42$'}\n- {prompt: a, expect: b, max_tokens: 9}"
    )
    assert read_probes(file) == (SUM, Probe(prompt="a", expect="b", max_tokens=9))


@pytest.fixture
def gateway():
    """Serve answers by version, and keep the requests."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format, *args):  # noqa: A002 - the base class names it
            pass

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            version = self.headers["x-model-version"]
            seen.append((version, body))
            message = {"role": "assistant", "content": f"from {version}"}
            document = {
                "id": "1",
                "object": "chat.completion",
                "created": 1,
                "model": body["model"],
                "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            }
            status = 200 if version != "bad" else 503
            if status != 200:
                document = {"error": {"message": "no replica"}}
            if version == "odd":
                document = {}
            content = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", seen
    server.shutdown()
    server.server_close()


def test_a_version_is_asked_through_the_gateway_at_temperature_0(gateway):
    url, seen = gateway
    waits = []
    ask = asker(url, "chat", "x-model-version", waits.append)
    assert ask(SUM, "v2") == Reply("from v2")
    [(version, body)] = seen
    assert (version, body["model"], body["temperature"]) == ("v2", "chat", 0)
    assert body["messages"] == [{"role": "user", "content": SUM.prompt}]
    waits.clear()
    assert ask(SUM, "bad") == Reply("", "chat: HTTP 503 no replica")
    assert waits == [0.0, 1.0, 4.0]
    assert "must be a chat completion" in ask(SUM, "odd").refusal


@pytest.mark.parametrize(("most", "passes"), [(0, False), (1, True)])
def test_a_canary_that_loses_too_many_probes_gets_no_requests(monkeypatch, gateway, most, passes):
    url, _ = gateway
    lines = []
    monkeypatch.setattr(command, "_tell", lines.append)
    canary = SimpleNamespace(version="v2")
    plan: Any = SimpleNamespace(
        platform=SimpleNamespace(models={"m": SimpleNamespace(canary=canary)})
    )
    probes = (Probe(prompt="who?", expect="stable"), Probe(prompt="where?", expect="from"))
    assert command._passes(probes, most, plan, "m", url) is passes
    assert lines[0] == "lost probe: 'who?': must match 'stable', got 'from v2'"
    end = "" if passes else ", more than --max-lost 0"
    assert lines[1] == f"Probes: the canary lost 1 of 2 that the stable version passes, of 2{end}"


def test_a_maximum_of_lost_probes_without_probes_is_refused():
    message = "--max-lost: must be used with --probes, got 3 without it"
    with pytest.raises(CommandError, match=f"^{re.escape(message)}$"):
        command.run("local", "any", max_lost=3)
