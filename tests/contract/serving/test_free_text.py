"""Free text of a stack reaches the engine's process as it is written."""

import json
import sys
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gke_inference.base.manifests import literal
from gke_inference.serving.launch import started
from gke_inference.serving.launcher.spec import Serving, Spec
from gke_inference.serving.model_objects import deployments
from tests.contract.serving.test_engine_args import H100S, V6E, on
from tests.model_plans import planned
from twin.cluster.agent.launching import launcher
from twin.cluster.agent.launching.environment import expand
from workloads.engine import commands, spec
from workloads.engine.main import main
from workloads.engine.process import Engine

own_command: Any = commands.command
"""Of the copy inside images, whose types are others to a type checker."""
TEXTS = ("$$", "$(HOME)", "$$(HOME)", "a$b", "100$", "$$$$", "$(LWS_WORKER_INDEX)", "é\n☃ $('x')")
HOME = {"HOME": "/home/engine", "LWS_WORKER_INDEX": "1", "LWS_LEADER_ADDRESS": "leader"}
SERVING = Serving(context_tokens=1024, kind="gpu", served_name="m", source="/m", tensor_parallel=1)
WRITTEN = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
"""What an argument of a process can be: without the NUL character and halves of characters."""
DOLLARS = st.lists(st.sampled_from(["$", "(", ")", "HOME", "LWS_WORKER_INDEX", "x"])).map("".join)


def container_of(serving: Serving) -> dict:
    container = {"env": [], "volumeMounts": []}
    started(container, serving)
    return container


def argv(container: dict) -> list[str]:
    """Return the engine's command line, as kubelet and launcher make it of a container."""
    words = launcher.words(container, HOME)
    return words[words.index("--") + 1 :]


@settings(deadline=None)
@given(st.lists(WRITTEN | DOLLARS, max_size=4))
def test_text_passes_the_kubelet_and_the_launcher_unchanged(texts):
    arguments = tuple(f"--override-generation-config={text}" for text in texts)
    serving = replace(SERVING, extra_arguments=arguments)
    made = argv(container_of(serving))
    assert tuple(made[len(made) - len(arguments) :]) == arguments
    assert made == own_command(serving, HOME), "the launcher's own is the same"


@given(WRITTEN | DOLLARS)
def test_the_kubelet_undoes_what_rendering_escapes(text):
    assert expand(literal(text), HOME) == text


def test_the_platforms_own_references_to_variables_are_replaced_and_those_of_users_are_not():
    serving = replace(
        SERVING,
        extra_arguments=("--node-rank=$(LWS_WORKER_INDEX)",),
        hosts=2,
        pipeline_parallel=2,
        spanning="engine",
    )
    made = argv(container_of(serving))
    assert made == own_command(serving, HOME)
    assert [word for word in made if word.startswith(("--node-rank", "--master-addr"))] == [
        "--node-rank=1",
        "--master-addr=leader",
        "--node-rank=$(LWS_WORKER_INDEX)",
    ]


@pytest.mark.parametrize("form", ["paired", "dual-container", "group", "ray"])
@pytest.mark.parametrize("text", TEXTS)
def test_engines_of_every_form_get_arguments_and_variables_as_written(args, dual, form, text):
    own = {
        "engine_args": {"override-generation-config": json.dumps({"stop": text})},
        "engine_env": {"STOP": text},
    }
    given = {
        "paired": {**args, "settings": own},
        "dual-container": {**dual, "settings": own},
        "group": {**on(args, H100S, size={"parameters_billion": 405.0}), "settings": own},
        "ray": {
            **on(args, {**V6E, "topology": "4x4"}, size={"parameters_billion": 70.0}),
            "settings": own,
        },
    }[form]
    made = deployments(planned(given))
    containers = [
        each
        for found in _pods([made[key] for key in made])
        for each in found
        if any(entry["name"] == "STOP" for entry in each["env"])
    ]
    engines = [each for each in containers if "args" in each]  # a Ray worker only starts Ray
    assert engines
    for each in containers:
        (variable,) = (entry["value"] for entry in each["env"] if entry["name"] == "STOP")
        assert expand(variable, HOME) == text
    word = f"--override-generation-config={own['engine_args']['override-generation-config']}"
    for each in engines:
        assert word in [expand(given_word, HOME) for given_word in each["args"]]


def _pods(value):
    if isinstance(value, dict):
        if isinstance(value.get("containers"), list):
            yield value["containers"]
        for each in value.values():
            yield from _pods(each)
    elif isinstance(value, list):
        for each in value:
            yield from _pods(each)


@pytest.mark.parametrize("text", TEXTS)
def test_a_process_starts_with_the_words_that_the_launcher_was_given(text):
    heard: list[str] = []
    ended = threading.Event()
    code = "import json, os, sys; print(json.dumps([sys.argv[1], os.environ['STOP']]))"
    engine = Engine([sys.executable, "-c", code, text], {"STOP": text}, heard.append, ended.set)
    assert ended.wait(30)
    engine.join(30)
    assert json.loads(heard[-1]) == [text, text]


def test_the_launcher_shows_users_arguments_as_written(tmp_path, capsys):
    serving = replace(SERVING, extra_arguments=("--stop=$$(HOME)$(LWS_WORKER_INDEX)",))
    file = tmp_path / "spec.json"
    file.write_text(
        Spec(
            busy_metrics=("a", "b"),
            health_path="/health",
            health_port=1,
            longest_request_seconds=1,
            metrics_path="/metrics",
            model="m",
            serving={"gpu": serving},
        ).text()
    )
    assert spec.read(file.read_text()).serving["gpu"].extra_arguments == serving.extra_arguments
    assert main([f"--spec={file}", "--hardware=gpu", "--show"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "--stop=$$(HOME)$(LWS_WORKER_INDEX)"
