"""`gke-inference preflight`: what it says of a model on a rung, and when it fails."""

from dataclasses import replace
from typing import Any

import pytest

from gke_inference.catalogue.rungs import Rung, check_rung
from infra.plan import resolve
from infra.reading.load import read
from infra.stack import Model
from scripts.check import preflight as program
from scripts.check.preflight_checks import Check, Line, line, lines
from twin.toolchain.python_environments import PythonEnvironment


def model(**changes: Any) -> Model:
    """Llama 3.1 8B, with some fields changed."""
    given: dict[str, Any] = {
        "weights": "llama-3.1-8b",
        "capacity": "chat",
        "replicas": {"min": 1, "max": 1},
        "size": {"parameters_billion": 8.03},
        "context": 16_384,
        **changes,
    }
    return Model.model_validate(given, strict=False)


def rung(accelerator: str = "tpu-v6e", **shape: Any) -> Rung:
    if accelerator.startswith("tpu") and not shape:
        shape = {"topology": "1x1"}
    given: Any = {"accelerator": accelerator, "provisioning": "on-demand", **shape}
    return check_rung(given)


def test_weights_and_one_long_request_fit_with_the_arithmetic_shown() -> None:
    found = line("chat", model(), rung()).memory
    assert found.ok
    assert found.says == (
        "15.0 GiB of weights, 1.4 of runtime and activations, 2.0 for one request <= 28.1 GiB "
        "a device; 96,146 tokens of KV cache, 5.9 requests"
    )


def test_a_v5e_has_what_its_compiler_gives_not_what_its_data_sheet_says() -> None:
    found = line("chat", model(), rung("tpu-v5e", topology="1x1")).memory
    assert found.ok is False
    assert "> 14.2 GiB a device" in found.says


def test_a_model_of_unknown_layers_is_checked_by_its_weights_and_says_so() -> None:
    found = line("chat", model(weights="our-own-model"), rung()).memory
    assert found.ok
    assert "KV cache not checked: the layers of our-own-model are not known" in found.says


def test_each_chip_s_heads_are_what_the_compiler_is_asked_for() -> None:
    found = line("chat", model(), rung(topology="2x2"))
    assert found.call == {
        "kernel": "paged",
        "generation": "v6e",
        "heads": 8,
        "kv_heads": 2,
        "head_size": 128,
        "context": 16_384,
    }


def test_for_a_gpu_nothing_is_compiled_and_it_says_why() -> None:
    found = line("chat", model(), rung("nvidia-l4", count=1))
    assert found.call is None
    assert found.kernel == Check(None, "not checked: no compiler for GPUs here")
    assert found.table.ok is None


def test_a_diffusion_model_on_tpu_needs_an_entry_of_our_table() -> None:
    flux = model(
        weights="flux.1-schnell",
        size={"parameters_billion": 12.0},
        engine="diffusion",
        task="image",
    )
    found = line("flux", flux, rung())
    assert found.table.ok
    assert found.call is not None
    assert found.call["kernel"] == "splash"
    assert found.memory.says.startswith("22.4 weights, 24.4 in all <= 31.2 GiB a chip")


def test_every_chip_of_a_slice_must_hold_a_whole_diffusion_model() -> None:
    flux = model(
        weights="flux.1-dev", size={"parameters_billion": 16.9}, engine="diffusion", task="image"
    )
    assert line("flux", flux, rung(topology="2x2")).memory.ok is False


def test_a_diffusion_model_on_a_chip_without_a_table_fails() -> None:
    flux = model(
        weights="flux.1-schnell",
        size={"parameters_billion": 12.0},
        engine="diffusion",
        task="image",
    )
    found = line("flux", flux, rung("tpu7x", topology="2x2x1"))
    assert found.table.ok is False
    assert found.kernel.says == "not checked: only v5e, v6e are compiled for"


def test_every_rung_of_every_model_is_looked_at_once() -> None:
    platform = read("prod")
    found = list(lines(resolve(platform)))
    assert len({(one.model, one.rung) for one in found}) == len(found)
    assert {one.model for one in found} == set(platform.models)


@pytest.mark.parametrize("part", ["memory", "kernel", "table"])
def test_one_failed_check_is_a_failure_and_an_unchecked_one_is_none(part: str) -> None:
    good = Line("chat", "tpu-v6e 1x1", Check(True, ""), Check(None, ""), Check(None, ""), None)
    failed: dict[str, Any] = {part: Check(False, "no")}
    bad = replace(good, **failed)
    assert program.failures([good, bad]) == [bad]


def test_the_compiler_s_answers_are_put_to_the_lines_that_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asking = line("chat", model(), rung(topology="2x2"))
    silent = line("chat", model(), rung("nvidia-l4", count=1))
    monkeypatch.setattr(PythonEnvironment, "is_installed", True)
    answer = '[{"code_bytes": null, "refusal": "needs 40.0 MiB of VMEM, the chip has 32.0 MiB"}]'
    monkeypatch.setattr(program, "run_kernels", lambda *_argv, given: answer)
    first, second = program.compiled([asking, silent])
    assert first.kernel == Check(False, "needs 40.0 MiB of VMEM, the chip has 32.0 MiB")
    assert second == silent


def test_without_a_compiler_the_line_names_the_command_that_gets_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PythonEnvironment, "is_installed", False)
    (found,) = program.compiled([line("chat", model(), rung())])
    assert found.kernel.ok is None
    assert "gke-inference tools --with xla" in found.kernel.says
