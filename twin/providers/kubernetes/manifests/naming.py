"""Generated object names, as in the official provider."""

import random
import secrets
from typing import Any

from twin.providers.kubernetes.manifests import fields
from twin.providers.kubernetes.manifests.errors import ProviderError
from twin.wire.property_values import UNKNOWN

AUTONAMED = "pulumi.com/autonamed"
_DISABLE = 2
_SUFFIX_LENGTH = 8


def annotations(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the annotations of an object; empty if it has none or they are unknown."""
    return fields.section(obj, "metadata", "annotations")


def is_true(obj: dict[str, Any], annotation: str) -> bool:
    """Return whether an annotation is set to `"true"`."""
    return annotations(obj).get(annotation) == "true"


def assign(
    obj: dict[str, Any],
    old: dict[str, Any],
    logical_name: str,
    seed: bytes,
    autonaming: Any = None,
) -> None:
    """Name an object that has no name: the old one, the engine's, or `LOGICAL-xxxxxxxx`.

    Args:
        obj: new inputs, which are changed in place.
        old: old inputs; empty for a new resource.
        logical_name: the resource's name in the program.
        seed: randomness from the engine, so that a preview and its update agree.
        autonaming: AutonamingOptions of the engine, or None.

    Raises:
        ProviderError: the engine does not allow a generated name.
    """
    metadata: Any = obj.setdefault("metadata", {})
    if metadata == UNKNOWN or metadata.get("name"):
        return
    if metadata.get("generateName"):
        raise ProviderError(
            "metadata.generateName: is not supported with server-side apply; set metadata.name"
        )
    if old and is_true(old, AUTONAMED):
        metadata["name"] = old["metadata"]["name"]
    elif autonaming is not None and autonaming.mode == _DISABLE:
        raise ProviderError("metadata.name: must be set, automatic naming is switched off")
    elif autonaming is not None and autonaming.proposed_name:
        metadata["name"] = autonaming.proposed_name
    else:
        metadata["name"] = f"{logical_name}-{_suffix(seed)}"
    if metadata.get("annotations") != UNKNOWN:
        metadata.setdefault("annotations", {})[AUTONAMED] = "true"


def _suffix(seed: bytes) -> str:
    digits = "0123456789abcdef"
    if not seed:
        return secrets.token_hex(_SUFFIX_LENGTH // 2)
    chooser = random.Random(seed)  # noqa: S311 - a name, not a secret
    return "".join(chooser.choice(digits) for _ in range(_SUFFIX_LENGTH))
