"""Chat templates, and images, video and audio in prompts."""

from typing import Any

import pytest

from gke_inference.catalogue.input_error import InputError
from gke_inference.intent.template_syntax import MOST_BYTES, compiled, template_problem
from gke_inference.serving.model_objects import deployments
from gke_inference.serving.model_server import ModelServer
from tests.model_plans import planned
from twin.engines.vllm_flags import parse as as_vllm_reads
from workloads.engine.commands import arguments, environment

CONFIG_MAP = "kubernetes:core/v1:ConfigMap"
DEPLOYMENT = "kubernetes:apps/v1:Deployment"
H100S: Any = {"accelerator": "nvidia-h100-80gb", "count": 2, "provisioning": "spot"}
V6E: Any = {"accelerator": "tpu-v6e", "topology": "2x2", "provisioning": "on-demand"}
TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}"
FILE = "/opt/gke-inference/engine/chat-template.jinja"


@pytest.fixture
def text_model(args) -> dict[str, Any]:
    """A model of text on one kind of hardware."""
    kept = {key: value for key, value in args.items() if key not in ("cache_bucket", "adapters")}
    return {**kept, "rungs": [H100S]}


@pytest.fixture
def sees(text_model) -> dict[str, Any]:
    """A model that accepts images."""
    return {
        **text_model,
        "size": {"parameters_billion": 27.4},
        "served_name": "gemma-3-27b",
        "weights": "gs://acme-models/gemma-3-27b-it",
    }


def serving_of(args: dict[str, Any]) -> Any:
    (made,) = planned(args).serving.values()
    return made


def template_of(recorder, args) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the pod template of a server, and the data of its ConfigMap."""
    recorder.run(lambda: ModelServer("llama", args))
    template = recorder.one(DEPLOYMENT).inputs["spec"]["template"]
    return template, recorder.one(CONFIG_MAP).inputs["data"]


def test_a_chat_template_is_a_file_beside_the_launcher_that_the_engine_reads(recorder, text_model):
    template, files = template_of(recorder, {**text_model, "settings": {"chat_template": TEMPLATE}})
    (container,) = template["spec"]["containers"]
    assert files["chat-template.jinja"] == TEMPLATE
    assert as_vllm_reads(container["args"]).chat_template == FILE
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts["/opt/gke-inference/engine"]["readOnly"] is True
    others = "".join(text for name, text in files.items() if name != "chat-template.jinja")
    assert len(others.encode()) + MOST_BYTES < 2**20  # what a ConfigMap holds


def test_pods_restart_when_only_the_text_of_their_template_changes(text_model):
    def annotations_of(text: str) -> dict[str, str]:
        plan = planned({**text_model, "settings": {"chat_template": text}})
        (made,) = deployments(plan).values()
        return made["spec"]["template"]["metadata"]["annotations"]

    assert annotations_of(TEMPLATE) == annotations_of(TEMPLATE)
    assert annotations_of(TEMPLATE) != annotations_of(TEMPLATE + " ")


@pytest.mark.parametrize(
    ("engine", "flag"),
    [("vllm", "--limit-mm-per-prompt"), ("sglang", "--limit-mm-data-per-request")],
)
def test_limits_of_media_are_flags_of_each_engine_that_has_them(sees, engine, flag):
    wanted = {**sees, "engine": engine, "settings": {"multimodal": {"image": 4, "video": 0}}}
    words = arguments(serving_of(wanted))
    assert f'{flag}={{"image": 4, "video": 0}}' in words


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_an_engine_fetches_media_from_listed_hosts_alone(sees, engine):
    hosts = ["images.example.com", "cdn.example.com"]
    words = arguments(
        serving_of({**sees, "engine": engine, "settings": {"multimodal": {"domains": hosts}}})
    )
    at = words.index("--allowed-media-domains")
    assert words[at + 1 : at + 3] == hosts


def test_without_a_list_a_model_that_sees_fetches_nothing_and_follows_no_redirect(sees):
    serving = serving_of(sees)
    assert as_vllm_reads(arguments(serving)).allowed_media_domains == ["none.invalid"]
    assert environment(serving) == {"VLLM_MEDIA_URL_ALLOW_REDIRECTS": "0"}


def test_a_model_whose_media_are_not_known_fetches_nothing_either(text_model):
    unknown = {**text_model, "served_name": "house", "weights": "gs://acme-models/house-8b"}
    assert serving_of(unknown).media_domains == ("none.invalid",)


def test_a_model_of_text_has_no_flags_of_media(text_model):
    serving = serving_of(text_model)
    assert not [word for word in arguments(serving) if "media" in word or "mm" in word]
    assert environment(serving) == {}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"settings": {"chat_template": TEMPLATE}, "engine": "tgi"},
            "settings.chat_template: must not be set: Text Generation Inference on "
            "nvidia-h100-80gb uses "
            "the template in the weights",
        ),
        (
            {"engine": "triton", "settings": {"multimodal": {"image": 1}}},
            "settings.multimodal: must not be set: Triton with TensorRT-LLM on nvidia-h100-80gb "
            "has no "
            "limits of media",
        ),
        (
            {"engine": "tgi"},
            "engine: must be vllm or sglang for a model that accepts images: Text Generation "
            "Inference on nvidia-h100-80gb fetches them from every address, got 'tgi'",
        ),
        (
            {"settings": {"multimodal": {"video": 1000}}},
            "settings.multimodal.video: must be 0 to 999, got 1000",
        ),
        (
            {"settings": {"multimodal": {"domains": ["10.0.0.1"]}}},
            "settings.multimodal.domains[0]: must be a host name such as models.example.com, got "
            "'10.0.0.1'",
        ),
        (
            {"settings": {"multimodal": {"domains": ["a.example.com", "a.example.com"]}}},
            "settings.multimodal.domains: must list each host once, got a.example.com, "
            "a.example.com",
        ),
    ],
)
def test_what_an_engine_or_a_model_cannot_do_is_refused(sees, changes, message):
    with pytest.raises(InputError) as error:
        serving_of({**sees, **changes})
    assert str(error.value) == message


def test_a_template_may_use_what_transformers_adds_to_jinja():
    text = (
        "{% for message in messages %}{% if not message.content %}{% break %}{% endif %}"
        "{% generation %}{{ message.content | tojson }}{% endgeneration %}{% endfor %}"
        "{{ raise_exception('no') if tools }}{{ strftime_now('%Y') }}"
    )
    assert template_problem(text) is None
    tools = compiled("{{ messages | tojson }}").render(messages=["<é>"])
    assert tools == '["<é>"]'  # Jinja alone escapes it for HTML pages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ messages | shout }}", "must be a Jinja template: line 1: No filter named 'shout'."),
        ("{{ messages }}" + " " * 524_288, "must have at most 524288 bytes, got 524302"),
        ("\n{{ messages }", "must be a Jinja template: line 2: unexpected '}'"),
        (
            "{% for m in messages %}" * 21 + "{% endfor %}" * 21,
            "must be a Jinja template: too many statically nested blocks, got '{% for m in",
        ),
        (
            "{{ messages[" + "9" * 5000 + "] }}",
            "must be a Jinja template: Exceeds the limit (4300 digits)",
        ),
        (
            "{% include 'tools.jinja' %}{{ messages }}",
            "must not include, import or extend other templates: an engine has only this one, got "
            "'tools.jinja'",
        ),
    ],
)
def test_a_text_that_no_engine_can_use_as_a_template_is_no_template(text, message):
    problem = template_problem(text)
    assert problem is not None
    assert problem.message.startswith(message)
