"""Images are referenced by digest."""

import re
from collections.abc import Iterator

from policies.framework.finding import Finding, unknown
from policies.framework.reading import kept_pods
from policies.framework.rule import Invariant
from policies.objects.index import Obj
from policies.objects.world import World

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")


def _check(world: World) -> Iterator[Finding]:
    for container in world.containers:
        if container.image and not _DIGEST.search(container.image):
            yield _by_tag(container.pod.obj, container.path, container.image)
    for config in world.of("ConfigMap"):
        for pod in kept_pods(config.resource):
            for path, body in pod.containers():
                image = str(body.get("image", ""))
                if image and not _DIGEST.search(image):
                    yield _by_tag(config, path, image)


def _by_tag(obj: Obj, path: str, image: str) -> Finding:
    return unknown(
        obj,
        f"{path}.image",
        image,
        "the content is not fixed: a tag can be moved",
        "append the digest to the tag: @sha256:…",
    )


RULE = Invariant(
    name="images-have-digests",
    description="Images are referenced by digest.",
    reference="this project's version lock; llm-d #2207: a mutable tag broke every guide at once",
    check=_check,
)
