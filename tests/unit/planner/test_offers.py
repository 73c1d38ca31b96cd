"""Stacks and preflight accept what the planner offers, and reject what it rejects."""

from typing import Any

import pytest

from gke_inference.catalogue.rungs import Rung, check_rung
from gke_inference.intent.engine_rules import engine_problems
from gke_inference.intent.fitting import unfit
from gke_inference.intent.host_memory import memory_problems
from gke_inference.intent.intent import ServingIntent, intent_of
from gke_inference.intent.settings import EngineSettings
from gke_inference.settings.size import Size
from gke_inference.sizing.architectures import Architecture, known
from infra.plan.engine import intent_words
from infra.stack import Model
from planner.choice.candidates import Candidate, Form, Refused, candidates
from scripts.check.preflight_checks import memory

TEXT = [one for one in known() if not one.is_diffusion]
CONTEXTS = (2_048, 65_536)


def rung_of(form: Form) -> Rung:
    shape: dict[str, Any] = {"topology": form.topology} if form.topology else {"count": form.count}
    if form.hosts > 1 and not form.topology:
        shape |= {"hosts": form.hosts, "network": form.network}
    args: Any = {
        "accelerator": form.word,
        "provisioning": "spot",
        "machine_type": form.machine_type,
        **shape,
    }
    return check_rung(args)


def model_of(architecture: Architecture, form: Form, context: int) -> Model:
    given: dict[str, Any] = {
        "weights": architecture.name,
        "capacity": "planned",
        "replicas": {"min": 1, "max": 1},
        "size": {"parameters_billion": architecture.parameters_billion, "bits": form.bits},
        "context": context,
        "settings": {"tensor_parallel": form.devices} if form.copies > 1 else {},
    }
    return Model.model_validate(given, strict=False)


def answers(architecture: Architecture, one: Candidate | Refused, context: int) -> set[bool]:
    """What the reader of a stack and preflight say of a form: whether the model starts."""
    model, rung = model_of(architecture, one.form, context), rung_of(one.form)
    intent = intent_of(intent_words("planned", model, weights=str), {"": rung})
    if list(memory_problems(intent)):
        return {False}  # a stack is refused before preflight sees it
    return {unfit(intent, rung) is None, memory(intent, rung).ok is True}


@pytest.mark.parametrize("architecture", TEXT, ids=lambda one: one.name)
def test_planner_stack_and_preflight_agree_on_every_shape(architecture: Architecture):
    for context in CONTEXTS:
        held, not_held = candidates(architecture, context=context)
        for one in held:
            assert answers(architecture, one, context) == {True}, one.form
        for other in not_held:
            assert answers(architecture, other, context) == {False}, (other.form, other.reason)


def test_a_form_whose_node_has_too_little_memory_for_the_file_cache_is_not_offered() -> None:
    (llama,) = [one for one in TEXT if one.name == "llama-3.1-405b"]
    held, not_held = candidates(llama, context=2_048, words=("tpu-v6e",))
    assert "tpu-v6e 4x8" not in {one.form.label for one in held if one.form.bits == 16}
    (reason,) = {r.reason for r in not_held if (r.form.label, r.form.bits) == ("tpu-v6e 4x8", 16)}
    assert reason == (
        "the pod needs 926 GiB of memory (8 for the engine, 8 of shared memory, 910 for the file"
        " cache), the node has 676"
    )


@pytest.mark.parametrize("engine", ["vllm", "sglang", "triton", "tgi"])
def test_an_engine_can_do_every_split_that_is_offered_for_it(engine: str):
    seen: set[tuple[str, int, int]] = set()
    for architecture in TEXT:
        for one in candidates(architecture, context=2_048, engine=engine)[0]:
            form = one.form
            if (form.word, form.copies, form.bits) not in seen:
                seen.add((form.word, form.copies, form.bits))
                split = form.devices if form.copies > 1 else None
                narrow = "fp8" if form.bits == 8 < architecture.bits else None
                intent = ServingIntent(
                    context=2_048,
                    engine=engine,
                    model="m",
                    rungs={"rungs[0]": rung_of(form)},
                    settings=EngineSettings(quantization=narrow, tensor_parallel=split),
                    size=Size(parameters_billion=1.0),
                    weights="m",
                )
                assert list(engine_problems(intent)) == [], form
    assert seen
