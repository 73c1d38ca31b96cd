"""Labels on Google Cloud resources: which environment, which part, and who manages it."""

import re
from collections.abc import Mapping

MANAGED_BY = "gke-inference"
TEAM_LABEL = "team"
"""Label of the objects and pods of a team, by which GKE's cost allocation splits the bill."""

_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")


def labels_of(
    component: str, environment: str | None = None, extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Returns `env`, `component` and `managed-by`, and the user's own labels under them.

    `env` is left out where the caller does not know it. `component` and `managed-by` cannot be
    replaced, since bills and sweeps go by them.

    Raises:
        ValueError: A key or value is not one Google Cloud takes.
    """
    labels = {**(extra or {}), "component": component, "managed-by": MANAGED_BY}
    if environment is not None:
        labels["env"] = environment
    for key, value in labels.items():
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise ValueError(
                "must be lower-case letters, digits, - and _, at most 63, the key starting with a "
                f"letter, got {key!r}: {value!r}"
            )
    return dict(sorted(labels.items()))
