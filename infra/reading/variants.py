"""Variants of stacks: with the objects that git delivers, or with any number of models."""

import copy
import json
from typing import Any

import yaml

from infra.reading.load import KEY, PROJECT, STACKS, WITH_DELIVERED, EngineLoader, platform_of
from infra.stack import DeliveryKind


def with_delivered(text: str) -> str:
    """Return a stack file whose program also registers objects delivered from git.

    Return the file unchanged if Pulumi delivers the stack or the file cannot be read.
    """
    if DeliveryKind.GITOPS.value not in text:
        return text
    try:
        document: Any = yaml.load(text, Loader=EngineLoader)  # noqa: S506 - it derives from SafeLoader
        config: dict[str, Any] = document["config"]
        kind = config[f"{PROJECT}:{KEY}"]["delivery"]["kind"]
    except (yaml.YAMLError, TypeError, KeyError):
        return text  # the next reader reports the problem
    if kind != DeliveryKind.GITOPS.value:
        return text
    config[f"{PROJECT}:{WITH_DELIVERED}"] = "true"
    return json.dumps(document)


_MOST_MODELS = 999


def stack_with_models(count: int, base: str = "local") -> dict[str, Any]:
    """Return the configuration of a stack with a number of identical models.

    Args:
        count: Models, 1 to 999.
        base: Stack whose regions and capacity it has, and whose first model it repeats.

    Raises:
        ValueError: The count is out of range.
    """
    if not 1 <= count <= _MOST_MODELS:
        raise ValueError(f"count must be 1 to {_MOST_MODELS}, got {count}")
    platform = copy.deepcopy(platform_of(STACKS / f"Pulumi.{base}.yaml"))
    model = next(iter(platform["models"].values()))
    adapters = model.pop("adapters", [])
    platform["models"] = {
        f"model-{number:03d}": {
            **copy.deepcopy(model),
            "adapters": [f"{adapter}-{number:03d}" for adapter in adapters],
        }
        for number in range(1, count + 1)
    }
    return {f"{PROJECT}:{KEY}": platform}
