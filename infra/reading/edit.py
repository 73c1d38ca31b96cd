"""Puts a planned model into a stack file: comments kept, checked by the stack's reader first."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from gke_inference.catalogue.input_error import InputError
from infra.reading.load import KEY, PROJECT, STACKS, parse, platform_of
from infra.stack.problems import StackError


@dataclass(frozen=True)
class Placement:
    """What a plan says of a model, in the words of a stack."""

    accelerator: str
    provisioning: tuple[str, ...]
    """In the order in which they are tried."""
    topology: str | None
    count: int | None
    hosts: int | None
    region: str
    tensor_parallel: int | None
    """Devices of one copy, where a replica holds several."""
    parameters_billion: float
    bits: int
    checkpoint_bits: int
    context: int
    replicas: int
    most_replicas: int
    slo_ms: tuple[int, int]
    """To the first token, and between tokens."""


def write_model(stack: str, name: str, placement: Placement, folder: Path = STACKS) -> Path:
    """Add a model and its capacity to a stack file, or replace its hardware there.

    A model that the stack has keeps its other words; its capacity is then `NAME-plan`.

    Raises:
        StackError: The file cannot be used, or could not be with the model; it is left as it was.
    """
    file = folder / f"Pulumi.{stack}.yaml"
    platform_of(file)  # what is wrong with the file is said as for every other command
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 120
    # the indentation of the stacks: lists two in, dashes and all
    yaml.indent(mapping=2, sequence=4, offset=2)  # pyright: ignore[reportUnknownMemberType]
    document: Any = yaml.load(file.read_text(encoding="utf-8"))  # pyright: ignore[reportUnknownMemberType]
    platform: Any = document["config"][f"{PROJECT}:{KEY}"]
    if placement.region not in platform["regions"]:
        known = ", ".join(platform["regions"])
        raise StackError(
            [InputError("regions", f"must have {placement.region} for this choice, has {known}")]
        )
    capacity = f"{_plain(name)}-plan"
    platform["capacity"][capacity] = _capacity(placement)
    models: Any = platform["models"]
    entry: Any = models.get(name) or CommentedMap({"weights": name})
    entry.update(_model(placement, capacity, models.get(name)))
    models[name] = entry
    parse(json.dumps(platform))
    text = io.StringIO()
    yaml.dump(document, text)  # pyright: ignore[reportUnknownMemberType]
    file.write_text(text.getvalue(), encoding="utf-8")
    return file


def _plain(name: str) -> str:
    """Return a model's name as part of a capacity's, which has no dots."""
    return "m-" * (not name[0].isalpha()) + name.replace(".", "-").replace("_", "-")


def _flow(values: dict[str, Any]) -> CommentedMap:
    made = CommentedMap(values)
    made.fa.set_flow_style()  # pyright: ignore[reportUnknownMemberType]
    return made


def _capacity(placement: Placement) -> CommentedMap:
    rung: dict[str, Any] = {"accelerator": placement.accelerator}
    for field in ("topology", "count", "hosts"):
        if getattr(placement, field) is not None:
            rung[field] = getattr(placement, field)
    return CommentedMap(
        {"rungs": [_flow({**rung, "provisioning": way}) for way in placement.provisioning]}
    )


def _model(placement: Placement, capacity: str, existing: Any) -> dict[str, Any]:
    ttft, tpot = placement.slo_ms
    size: dict[str, Any] = {"parameters_billion": placement.parameters_billion}
    if placement.bits != 16:
        size["bits"] = placement.bits
    made: dict[str, Any] = {
        "capacity": capacity,
        "size": _flow(size),
        "context": placement.context,
        "replicas": _flow({"min": placement.replicas, "max": placement.most_replicas}),
        "slo": _flow({"ttft_p95_ms": ttft, "tpot_p95_ms": tpot}),
    }
    settings: dict[str, Any] = dict(existing.get("settings", {})) if existing else {}
    settings.pop("tensor_parallel", None)  # of the hardware before
    if placement.bits == 16:
        settings.pop("quantization", None)
    if placement.bits == 8 and placement.checkpoint_bits > 8:
        settings["quantization"] = "fp8"
    if placement.tensor_parallel is not None:
        settings["tensor_parallel"] = placement.tensor_parallel
    if settings or (existing and "settings" in existing):
        made["settings"] = _flow(settings)
    if existing is None or "regions" in existing:
        made["regions"] = [placement.region]
    return made
