"""Stack files whose previews include the objects delivered from git."""

import json
from typing import Any

import yaml

from infra.reading.load import KEY, PROJECT, WITH_DELIVERED, EngineLoader
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
