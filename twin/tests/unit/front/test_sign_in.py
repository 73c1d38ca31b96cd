"""Identity-Aware Proxy: who passes, and the token that a gate verifies."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from twin.providers.gcp import rest
from twin.providers.gcp.effects import sign_in
from twin.providers.gcp.resources.project_numbers import learn
from twin.tests.fronts import REGIONS, let_people_in, make_front
from twin.tests.unit.gcp.conftest import PROJECT, Cloud, without_waits

MEMBERS = ("user:ada@example.com", "group:ml@example.org", "domain:lab.example")


@pytest.fixture
def ask(tmp_path: Path) -> Any:
    """Return the answer to a request with headers, for a front with people."""
    paths = without_waits(tmp_path / "twin")
    cloud = Cloud(paths)
    make_front(cloud, dict.fromkeys(REGIONS[:1], "127.32.251.1"), 8080)
    let_people_in(cloud, "chat.test", *MEMBERS)

    def asked(service: str = "front-people", **headers: str) -> sign_in.Answer:
        path = f"/iap/{PROJECT}/{service}/v1/completions?stream=true"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return sign_in.check(paths, cloud.world.store, path, named)

    made: Any = asked
    made.paths, made.store = paths, cloud.world.store
    return made


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize(
    ("person", "status"),
    [
        ("ada@example.com", 200),
        ("eve@example.com", 403),
        ("eve@example.com, ml@example.org", 200),
        ("bob@lab.example", 200),
        ("ml@example.org", 403),
    ],
)
def test_members_pass_by_address_group_or_domain(ask, person, status):
    assert ask(x_twin_person=person).status == status


def test_without_a_session_browsers_are_redirected_and_programs_refused(ask):
    assert ask().status == 401
    answer = ask(accept="text/html,*/*")
    assert (answer.status, answer.headers["Location"].split("/")[2]) == (302, "accounts.google.com")
    assert ask("front-gone", x_twin_person="ada@example.com").status == 404


def test_a_role_on_another_backend_service_lets_nobody_in(ask):
    assert ask("front", x_twin_person="ada@example.com").status == 403


NUMBER = "314159265358"


def test_the_token_of_a_person_is_signed_for_the_backend_service(ask):
    learn(PROJECT, NUMBER, ask.store)
    headers = ask(x_twin_person="ada@example.com").headers
    assert headers["x-goog-authenticated-user-email"] == "accounts.google.com:ada@example.com"
    head, claims, signature = headers[sign_in.TOKEN].split(".")
    (key,) = sign_in.public_keys(ask.paths)["keys"]
    found = json.loads(decoded(head))
    assert found == {"alg": "ES256", "kid": key["kid"], "typ": "JWT"}
    payload = json.loads(decoded(claims))
    (service,) = ask.store.find("gcp:compute/backendService:BackendService", "front-people")
    status, shown = rest.answer(ask.paths, 1, "compute.googleapis.com", f"compute/v1/{service.id}")
    assert status == 200
    place = f"/projects/{NUMBER}/global/backendServices"
    assert payload["aud"] == f"{place}/{shown['id']}"
    assert (payload["iss"], payload["email"], payload["hd"], payload["exp"] - payload["iat"]) == (
        "https://cloud.google.com/iap",
        "ada@example.com",
        "example.com",
        600,
    )
    x, y = (int.from_bytes(decoded(key[part]), "big") for part in "xy")
    public = ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()
    raw = decoded(signature)
    r, s = (int.from_bytes(part, "big") for part in (raw[:32], raw[32:]))
    how = ec.ECDSA(hashes.SHA256())
    public.verify(encode_dss_signature(r, s), f"{head}.{claims}".encode(), how)
    with pytest.raises(InvalidSignature):
        public.verify(encode_dss_signature(r, s), f"{head}.x{claims}".encode(), how)
