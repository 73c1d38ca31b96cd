"""Credentials that backends accept and reject, as their providers do."""

import pytest

from twin.model_providers.dialects import ACCESS_TOKEN, Grants, error_of, id_token, refusal_of
from twin.model_providers.grants import grants_of, is_of_service
from twin.world.store import Store, new_record

ALL = Grants(lambda _: True, lambda _: True, lambda _host, _account: True)
NOTHING = Grants(lambda _: False, lambda _: False, lambda _host, _account: False)
CHAT = "/v1/chat/completions"
VERTEX = "us-central1-aiplatform.googleapis.com"
VERTEX_CHAT = "/v1/projects/p/locations/us-central1/endpoints/openapi/chat/completions"
GEMINI = "generativelanguage.googleapis.com"
RUN = "gemma-1.us-central1.run.app"
ACCOUNT = "relay@p.iam.gserviceaccount.com"


@pytest.mark.parametrize(
    ("host", "path", "token"),
    [
        ("api.openai.com", CHAT, "sk-proj-0123456789abcdef"),
        ("api.openai.com", "/v1/embeddings", "sk-proj-0123456789abcdef"),
        ("api.anthropic.com", CHAT, "sk-ant-0123456789abcdef"),
        (GEMINI, "/v1beta/openai/chat/completions", "AIza0123456789abcdef0"),
        (VERTEX, VERTEX_CHAT, ACCESS_TOKEN),
        (
            "aiplatform.googleapis.com",
            "/v1/projects/p/locations/global/endpoints/openapi/chat/completions",
            ACCESS_TOKEN,
        ),
        (RUN, CHAT, id_token(f"https://{RUN}", ACCOUNT)),
        ("llm.example.internal", CHAT, ""),
    ],
)
def test_a_right_request_is_answered(host: str, path: str, token: str):
    assert refusal_of(host, path, token, "google/gemini", ALL) is None


@pytest.mark.parametrize(
    ("host", "path", "token", "status"),
    [
        ("api.openai.com", CHAT, "", 401),
        ("api.openai.com", CHAT, "sk-ant-0123456789abcdef", 401),
        ("api.openai.com", "/v1/other", "sk-proj-0123456789abcdef", 404),
        ("api.anthropic.com", CHAT, "sk-proj-0123456789abcdef", 401),
        ("api.anthropic.com", "/v1/embeddings", "sk-ant-0123456789abcdef", 404),
        (GEMINI, "/v1beta/openai/chat/completions", "sk-proj-0123456789abcdef", 400),
        (GEMINI, CHAT, "AIza0123456789abcdef0", 404),
        (VERTEX, VERTEX_CHAT, "AIza0123456789abcdef0", 401),
        (VERTEX, VERTEX_CHAT.replace("us-central1", "europe-west4"), ACCESS_TOKEN, 404),
        (RUN, CHAT, ACCESS_TOKEN, 401),
        (RUN, CHAT, id_token("https://other.run.app", ACCOUNT), 401),
    ],
)
def test_a_wrong_credential_or_path_is_refused(host: str, path: str, token: str, status: int):
    refusal = refusal_of(host, path, token, "google/gemini", ALL)
    assert refusal is not None
    assert refusal.status == status


def test_a_model_without_its_publisher_is_unknown_to_vertex_ai():
    refusal = refusal_of(VERTEX, VERTEX_CHAT, ACCESS_TOKEN, "gemini", ALL)
    assert refusal is not None
    assert refusal.status == 400


@pytest.mark.parametrize(
    ("host", "path", "token"),
    [
        (VERTEX, VERTEX_CHAT, ACCESS_TOKEN),
        (RUN, CHAT, id_token(f"https://{RUN}", ACCOUNT)),
    ],
)
def test_google_refuses_who_has_no_role(host: str, path: str, token: str):
    refusal = refusal_of(host, path, token, "google/gemini", NOTHING)
    assert refusal is not None
    assert refusal.status == 403


def test_errors_have_the_shape_of_their_provider():
    assert isinstance(error_of(VERTEX, 429, "full").body, list)
    assert error_of("api.anthropic.com", 529, "full").body["error"]["type"] == "overloaded_error"
    assert error_of(RUN, 503, "full").content_type == "text/html"
    assert error_of("api.openai.com", 500, "full").body["error"]["code"] is None


def test_grants_are_those_of_the_cloud(tmp_path):
    store = Store(tmp_path / "cloud.db")
    relay = "principal://iam.googleapis.com/x/subject/ns/models/sa/relay"
    other = "principal://iam.googleapis.com/x/subject/ns/models/sa/llama"
    for number, (kind, inputs) in enumerate(
        [
            (
                "gcp:projects/iAMMember:IAMMember",
                {"project": "p", "role": "roles/aiplatform.user", "member": relay},
            ),
            (
                "gcp:projects/iAMMember:IAMMember",
                {"project": "q", "role": "roles/aiplatform.user", "member": other},
            ),
            (
                "gcp:serviceaccount/iAMMember:IAMMember",
                {
                    "serviceAccountId": f"projects/p/serviceAccounts/{ACCOUNT}",
                    "role": "roles/iam.serviceAccountOpenIdTokenCreator",
                    "member": relay,
                },
            ),
            (
                "gcp:cloudrunv2/serviceIamMember:ServiceIamMember",
                {
                    "name": "gemma",
                    "role": "roles/run.invoker",
                    "member": f"serviceAccount:{ACCOUNT}",
                },
            ),
        ]
    ):
        store.add(new_record(kind, f"m{number}", f"m{number}", "p", "urn", inputs, {}), [])
    found = grants_of(store)
    assert (found.may_use_vertex("p"), found.may_use_vertex("q")) == (True, False)
    assert found.may_make_tokens(ACCOUNT)
    assert not found.may_make_tokens("other@p.iam.gserviceaccount.com")
    assert found.may_invoke(RUN, ACCOUNT)
    assert not found.may_invoke("llama-1.us-central1.run.app", ACCOUNT)
    assert not found.may_invoke(RUN, "other@p.iam.gserviceaccount.com")


@pytest.mark.parametrize(
    ("host", "found"),
    [
        ("app-161803398874.us-east5.run.app", True),
        ("app-k3j2h1g0ab-uc.a.run.app", True),
        ("app-two-161803398874.us-east5.run.app", False),
        ("app-161803398874.us-east5.run.app.example.com", False),
        ("app.run.app", False),
    ],
)
def test_a_grant_is_for_the_hosts_of_its_service_alone(host: str, found: bool):
    assert is_of_service(host, "app") is found
