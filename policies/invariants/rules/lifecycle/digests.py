"""Images are named by what they contain."""

import re
from collections.abc import Iterator

from policies.invariants.finding import Finding, Invariant, unknown
from policies.invariants.world import World

_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}\Z")


def _check(world: World) -> Iterator[Finding]:
    for container in world.containers:
        if container.image and not _DIGEST.search(container.image):
            yield unknown(
                container.pod.obj,
                f"{container.path}.image",
                container.image,
                "which bytes run is not said: a tag can be moved",
                "write the digest behind the tag: @sha256:…",
            )


INVARIANT = Invariant(
    name="images-have-digests",
    holds="Images are named by digest.",
    source="this project's version lock; llm-d #2207: a mutable tag broke every guide at once",
    check=_check,
)
