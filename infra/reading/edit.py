"""Writes models and settings into a stack file. Keeps comments, and validates the result first."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml as pyyaml
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from gke_inference.catalogue.engines import DEFAULT_ENGINE
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.catalogue.problems import join
from infra.reading.layers import SettingsOf
from infra.reading.load import KEY, PROJECT, STACKS, parse, platform_in, text_of
from infra.stack import Layer
from infra.stack.problems import StackError

_WHOLE_BITS = 16
_HARDWARE = ("min", "max", "standby")
"""Fields of a model's replicas that depend on its hardware."""


@dataclass(frozen=True)
class Placement:
    """The placement of a model, in stack terms."""

    accelerator: str
    provisioning: tuple[str, ...]
    """Provisioning models, in the order in which they are tried."""
    topology: str | None
    count: int | None
    hosts: int | None
    network: str | None
    """`tcp` where the hosts have no RDMA, which a stack must say."""
    region: str
    tensor_parallel: int | None
    """Devices per copy, if a replica holds several copies."""
    parameters_billion: float
    bits: int
    checkpoint_bits: int
    context: int
    replicas: int
    most_replicas: int
    kv_cache_dtype: str | None
    """Number format of the KV cache, or None for the engine's default."""
    slo_ms: tuple[int, int]
    """Time to first token and time per output token, in milliseconds."""
    fallback: "Placement | None" = None
    """GPUs that replace the TPUs of a paired model, after the rungs of this placement."""
    prefill_replicas: tuple[int, int] | None = None
    """Fewest and most prefill replicas, if prefill and decode are disaggregated."""
    experts: bool = False
    """Whether the experts are spread over all chips."""
    is_move: bool = False
    """Whether only the hardware of an existing model changes: its size, context, precision, regions
    and latency targets stay as they are."""
    weights: str | None = None
    """Weights of a model that is not in the stack; None for its name."""
    engine: str = DEFAULT_ENGINE
    """Engine that the estimates are for."""


def write_model(stack: str, name: str, placement: Placement, folder: Path = STACKS) -> Path:
    """Add a model and its capacity to a stack file, or replace its hardware there.

    An existing model keeps its other settings; its capacity becomes `NAME-plan`.

    Raises:
        StackError: The file cannot be used, or could not be with the model; it is left as it was.
    """
    return write_models(stack, {name: placement}, folder)


def write_models(stack: str, placements: Mapping[str, Placement], folder: Path = STACKS) -> Path:
    """Add several models to a stack file, or replace their hardware; see `write_model`.

    Raises:
        StackError: The file cannot be used, or could not be with the models; it is left as it was.
    """

    def change(platform: Any) -> None:
        for name, placement in placements.items():
            put(platform, name, placement)

    return rewrite(stack, change, folder)


def rewrite(stack: str, change: Callable[[Any], None], folder: Path = STACKS) -> Path:
    """Change the settings in a stack file, and keep its comments.

    Args:
        stack: Name of the stack.
        change: Changes the settings in place.
        folder: Folder of the stack files.

    Raises:
        StackError: The file cannot be used, or could not be after the change; it is left as it was.
    """
    text = rewritten(stack, change, folder)
    file = folder / f"Pulumi.{stack}.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def rewritten(stack: str, change: Callable[[Any], None], folder: Path = STACKS) -> str:
    """Return the text of a stack file after a change: see `rewrite`."""
    file = f"Pulumi.{stack}.yaml"
    text = text_of(folder / file)
    before = platform_in(text, file)  # report errors of the file as every other command does

    def checked(platform: Any) -> None:
        if problems := list(_unwritable(file, before, text)):
            raise StackError(problems)
        change(platform)

    return changed(text, file, checked)


def changed(
    text: str, file: str, change: Callable[[Any], None], settings_of: SettingsOf | None = None
) -> str:
    """Return the text of a stack file after a change of its settings, with its comments.

    Args:
        text: Content of the file.
        file: Name of the file, for errors.
        change: Changes the settings in place.
        settings_of: Returns the settings that the platform of a serving stack shares. Without it,
            serving stacks are rejected.

    Raises:
        StackError: The text cannot be written back, or is no usable stack after the change.
    """
    yaml, document = _opened(text, file)
    platform: Any = document["config"][f"{PROJECT}:{KEY}"]
    change(platform)
    parse(json.dumps(platform), settings_of)
    written = io.StringIO()
    yaml.dump(document, written)
    return written.getvalue()


def _opened(text: str, file: str) -> tuple[YAML, Any]:
    """Return the document of a stack file, and what writes it with its comments.

    Args:
        text: Content of the file.
        file: Name of the file, for errors.

    Raises:
        StackError: The text has what cannot be written back, such as a tab before a value.
    """
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 120
    # indentation of the stack files: lists are indented by two
    yaml.indent(mapping=2, sequence=4, offset=2)
    try:
        return yaml, yaml.load(text)
    except YAMLError as error:
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        rule = "must be YAML that can be written with its comments"
        raise StackError([InputError(file, rule, Bare(f"{what}{where}"))]) from None


def _unwritable(file: str, platform: Any, text: str) -> Iterator[InputError]:
    """Yield why models cannot be written to a stack file."""
    layer = platform.get("layer", Layer.ALL.value)
    if layer != Layer.ALL.value:
        rule = "must be all: models and their capacity are in different files otherwise"
        yield InputError("layer", rule, layer)
    for token in pyyaml.scan(text, pyyaml.SafeLoader):
        if isinstance(token, pyyaml.AnchorToken):
            rule = "must be without YAML anchors, which could also change what refers to them"
            line = token.start_mark.line + 1
            yield InputError(file, rule, Bare(f"&{token.value} in line {line}"))
            return


def put(platform: Any, name: str, placement: Placement) -> None:
    """Put a model and its capacity into the document of a stack.

    Raises:
        StackError: The document does not have the placement's region, or its model cannot move.
    """
    if placement.region not in platform["regions"]:
        regions: str = ", ".join(platform["regions"])
        raise StackError(
            [InputError("regions", f"must have {placement.region} for this choice, has {regions}")]
        )
    capacity = f"{_plain(name)}-plan"
    models: Any = platform.setdefault("models", CommentedMap())
    existing: Any = models.get(name)
    if existing and (problems := list(_immovable(name, existing, placement))):
        raise StackError(problems)
    before: Any = platform["capacity"].get(existing["capacity"], {}) if existing else {}
    platform["capacity"][capacity] = _capacity(placement, before)
    entry: Any = existing or CommentedMap({"weights": placement.weights or name})
    if not placement.experts:
        entry.pop("experts", None)  # from the previous hardware
    entry.update(_model(placement, capacity, existing))
    models[name] = entry


def _immovable(name: str, existing: Any, placement: Placement) -> Iterator[InputError]:
    """Yield what the estimates of a placement do not cover."""
    engine = existing.get("engine", DEFAULT_ENGINE)
    if engine != placement.engine:
        rule = f"must be {placement.engine}, the engine that the choice is for"
        yield InputError(join("models", name, "engine"), rule, engine)
    if existing.get("disaggregated") and placement.prefill_replicas is None:
        rule = "must be removed first: replicas of this choice compute prompts and answers"
        yield InputError(join("models", name, "disaggregated"), rule)


def _plain(name: str) -> str:
    """Return a model's name for use in a capacity name, which has no dots."""
    return "m-" * (not name[0].isalpha()) + name.replace(".", "-").replace("_", "-")


def _flow(values: dict[str, Any]) -> CommentedMap:
    made: Any = CommentedMap(values)
    made.fa.set_flow_style()
    return made


def _capacity(placement: Placement, before: Any) -> CommentedMap:
    """Return the capacity of a placement; it keeps the other settings of the one before."""
    # copied, as the same object twice would become an anchor
    kept = {key: deepcopy(value) for key, value in before.items() if key != "rungs"}
    placements = [placement, *([placement.fallback] if placement.fallback else [])]
    old: Any = before.get("rungs", ())
    rungs = [
        rung
        for one in placements
        for provisioning in one.provisioning
        for rung in _rungs(one, provisioning, old)
    ]
    return CommentedMap({**kept, "rungs": rungs})


def _rungs(placement: Placement, provisioning: str, old: Any) -> list[CommentedMap]:
    """Return the rungs of one way to buy; reservations of the same hardware stay as they are."""
    rung: dict[str, Any] = {"accelerator": placement.accelerator}
    for field in ("topology", "count", "hosts", "network"):
        if getattr(placement, field) is not None:
            rung[field] = getattr(placement, field)
    kept = [one for one in old if provisioning == "reservation" and _is_like(one, rung)]
    if any(one.get("provisioning") == provisioning for one in kept):
        return [deepcopy(one) for one in kept if one.get("provisioning") == provisioning]
    return [_flow({**rung, "provisioning": provisioning})]


def _is_like(one: Any, rung: dict[str, Any]) -> bool:
    """Return whether two rungs are of the same hardware."""
    fields = ("accelerator", "topology", "count")
    hosts = [each.get("hosts") or 1 for each in (one, rung)]
    return hosts[0] == hosts[1] and all(one.get(key) == rung.get(key) for key in fields)


def _model(placement: Placement, capacity: str, existing: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"capacity": capacity}
    before: dict[str, Any] = dict(existing.get("replicas", {})) if existing else {}
    counts: dict[str, Any] = {"min": placement.replicas, "max": placement.most_replicas}
    if placement.fallback is not None:
        counts["standby"] = placement.fallback.replicas
    made["replicas"] = _flow({**{k: v for k, v in before.items() if k not in _HARDWARE}, **counts})
    if placement.experts:
        made["experts"] = (existing.get("experts") if existing else None) or CommentedMap()
    if placement.prefill_replicas is not None:
        few, most = placement.prefill_replicas
        made["disaggregated"] = {"prefill": {"replicas": _flow({"min": few, "max": most})}}
    settings: dict[str, Any] = dict(existing.get("settings", {})) if existing else {}
    settings.pop("tensor_parallel", None)  # from the previous hardware
    if placement.tensor_parallel is not None:
        settings["tensor_parallel"] = placement.tensor_parallel
    if not placement.is_move:
        _answer(made, settings, placement, existing)
    if settings or (existing and "settings" in existing):
        made["settings"] = _flow(settings)
    return made


def _answer(
    made: dict[str, Any], settings: dict[str, Any], placement: Placement, existing: Any
) -> None:
    """Write what a plan of one model decides in addition: precision, lengths, targets, region."""
    ttft, tpot = placement.slo_ms
    size: dict[str, Any] = {"parameters_billion": placement.parameters_billion}
    if placement.bits != _WHOLE_BITS:
        size["bits"] = placement.bits
    kept: dict[str, Any] = dict(existing.get("slo", {})) if existing else {}
    made["size"] = _flow(size)
    made["context"] = placement.context
    made["slo"] = _flow({**kept, "ttft_p95_ms": ttft, "tpot_p95_ms": tpot})
    if existing is None or "regions" in existing:
        made["regions"] = [placement.region]
    if placement.bits == _WHOLE_BITS:
        settings.pop("quantization", None)
    if placement.bits == 8 and placement.checkpoint_bits > 8:
        settings["quantization"] = "fp8"
    settings.pop("kv_cache_dtype", None)
    if placement.kv_cache_dtype is not None:
        settings["kv_cache_dtype"] = placement.kv_cache_dtype
