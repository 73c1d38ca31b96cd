"""Images are pinned: the same manifest always runs the same program."""

import re
from collections.abc import Iterator

from policies.framework.finding import Finding, broken, quoted
from policies.framework.reading import at, is_kubernetes, is_workload, kept_pods, pods
from policies.framework.resources import Resource
from policies.framework.rule import Config, OnObjects, ResourceRule

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")
_TAG = re.compile(r":([A-Za-z0-9_][A-Za-z0-9_.-]{0,127})\Z")
_EXACT = re.compile(r"\d+\.\d+|\d{8}|\b[0-9a-f]{7,40}\b")
_FLOATING = re.compile(r"(^|[-_.])(latest|nightly|main|master|dev|edge|head|stable)($|[-_.])", re.I)
_IS_CONFIG = is_kubernetes("ConfigMap")


def floating(image: str) -> str | None:
    """Return why an image reference is not pinned, or None if it is."""
    if _DIGEST.search(image):
        return None
    tag = _TAG.search(image)
    if tag is None:
        return "has no tag"
    if _FLOATING.search(tag.group(1)):
        return f"has the moving tag {tag.group(1)!r}"
    if not _EXACT.search(tag.group(1)):
        return f"has the tag {tag.group(1)!r}, which is not an exact version"
    return None


def _check(resource: Resource, config: Config) -> Iterator[Finding]:
    digests_only = config.get("digestsOnly") is True
    for pod in [*pods(resource), *kept_pods(resource)]:
        seen = False
        for path, container in pod.containers():
            seen = True
            image = at(container, "image")
            if not image:
                yield broken(resource, f"{path}.image", quoted(image), "must be set")
            elif at(container, "imagePullPolicy") == "Never":
                continue  # the node's own, which no registry can change
            elif reason := floating(str(image)):
                yield broken(
                    resource,
                    f"{path}.image",
                    "",
                    f"must be an exact version or a digest, {image!r} {reason}",
                )
            elif digests_only and not _DIGEST.search(str(image)):
                yield broken(resource, f"{path}.image", quoted(image), "must be a digest")
        if not seen:
            yield broken(resource, pod.at("spec.containers"), "none", "must list containers")


RULE = ResourceRule(
    name="pinned-image",
    description="Images are pinned to an exact version or a digest.",
    applies=lambda resource: is_workload(resource) or _IS_CONFIG(resource),
    check=_check,
    config={
        "digestsOnly": {
            "type": "boolean",
            "default": False,
            "description": "Also reject exact versions, since only digests are immutable.",
        }
    },
    reference="Kubernetes: image names (tags can move)",
    on_objects=OnObjects(
        subject="lifecycle",
        fix="use the exact release, or its digest",
    ),
)
