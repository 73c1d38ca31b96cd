"""Labels of Google Cloud resources: environment, component and manager."""

import re
from collections.abc import Mapping

MANAGED_BY = "gke-inference"
TEAM_LABEL = "team"
"""Label of a team's objects and pods, by which GKE's cost allocation splits the bill."""

_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def labels_of(
    component: str, environment: str | None = None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the labels `env`, `component` and `managed-by`, which override the user's own.

    `env` is omitted if the caller does not know it. `component` and `managed-by` cannot be
    overridden, since billing and cleanup rely on them.

    Raises:
        ValueError: A key or value is not one Google Cloud takes.
    """
    labels = {**(extra or {}), "component": component, "managed-by": MANAGED_BY}
    if environment is not None:
        labels["env"] = environment
    for key, value in labels.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise ValueError(
                "must be lowercase letters, digits, - and _, at most 63, the key starting with a "
                f"letter, got {key!r}: {value!r}"
            )
    return dict(sorted(labels.items()))
