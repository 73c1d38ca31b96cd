"""Insignificant differences, by their names in the provider's source."""

import ipaddress
import json
import re
from collections.abc import Callable
from typing import Any

from twin.providers.gcp.checks.validators import duration_seconds
from twin.providers.gcp.schema import Field
from twin.wire.property_values import last_segment

_API = re.compile(r"^https?://(www|compute|container)\.googleapis\.com/((compute|dns)/)?(v\w+)/")
_SERVICE = re.compile(r"^//\w+\.googleapis\.com/")
_NUMBERED = re.compile(r"projects/\d+")
_OF_PROJECT = re.compile(r"projects/[^/]+")
_PROJECT_AND_NAME = 2
_EMPTY_OR = re.compile(r"^tpgresource\.EmptyOrDefaultStringSuppress\((?P<default>.*)\)$")


def is_same(field: Field, old: Any, new: Any) -> bool:
    """Return whether two values of a field are equivalent for Google."""
    if old == new:
        return True
    if isinstance(old, bool) or isinstance(new, bool):
        return False
    if isinstance(old, int | float) and isinstance(new, int | float):
        return float(old) == float(new)
    if not isinstance(old, str) or not isinstance(new, str):
        return False
    return any(_suppressed(name, old, new) for name in field.diff_suppress)


def relative_path(reference: str) -> str:
    """Return a link without scheme, host and API version: `projects/p/global/networks/n`."""
    return _SERVICE.sub("", _API.sub("", reference)).removeprefix("//").lstrip("/")


def is_same_image(old: str, new: str, project: str) -> bool:
    """Return whether two references name one disk image, or one family of images.

    Args:
        old: reference such as `debian-cloud/debian-12`, `family/mine` or a link.
        new: another one.
        project: project of references without one.
    """
    return _image(old, project) == _image(new, project)


def _image(reference: str, project: str) -> tuple[str, str]:
    parts = relative_path(reference).split("/")
    if parts[0] == "projects" and len(parts) > 1:
        return parts[1], parts[-1]
    named = len(parts) == _PROJECT_AND_NAME and parts[0] != "family"
    return (parts[0] if named else project), parts[-1]


def is_of_the_server(field: Field, key: str) -> bool:
    """Return whether Google may have added a key of a map, so that its absence is no difference.

    Args:
        field: the map.
        key: a key that the state has and the program does not give.
    """
    return any(
        key.startswith(_ADDED_BY_GOOGLE[name])
        for name in field.diff_suppress
        if name in _ADDED_BY_GOOGLE
    )


def is_kept(field: Field, old: Any, new: Any) -> bool:
    """Return whether the provider hides a change of a block's content, but not its removal."""
    return bool(old and new) and not _KEPT_BLOCKS.isdisjoint(field.diff_suppress)


def _suppressed(name: str, old: str, new: str) -> bool:
    match = _EMPTY_OR.match(name)
    if match is not None:
        return {old, new} <= {"", match["default"]}
    check = _CHECKS.get(name)
    return check is not None and check(old, new)


def _link_or_name(old: str, new: str) -> bool:
    if "/" in old and "/" in new:
        return relative_path(old) == relative_path(new)
    return last_segment(old) == last_segment(new)


def _case(old: str, new: str) -> bool:
    return old.lower() == new.lower()


def _range(old: str, new: str) -> bool:
    if old.startswith("/") or new.startswith("/"):
        return old.rpartition("/")[2] == new.rpartition("/")[2]
    try:
        return ipaddress.ip_network(old, strict=False) == ipaddress.ip_network(new, strict=False)
    except ValueError:
        return False


def _project_number(old: str, new: str) -> bool:
    """Return whether an ID that Google returns with the project's number is the given one."""
    return _NUMBERED.sub("projects/-", old) == _OF_PROJECT.sub("projects/-", new)


def _json(old: str, new: str) -> bool:
    try:
        return json.loads(old) == json.loads(new)
    except ValueError:
        return False


def _duration(old: str, new: str) -> bool:
    return duration_seconds(old) == duration_seconds(new)


_PRIMITIVE_ROLES = {
    "roles/bigquery.dataEditor": "WRITER",
    "roles/bigquery.dataOwner": "OWNER",
    "roles/bigquery.dataViewer": "READER",
}
"""Roles that BigQuery returns by older names (bigqueryAccessRoleToPrimitiveMap)."""
_KEPT_BLOCKS = frozenset(["memorystoreInstancedDesiredAutoConnectionsDiffSuppress"])
"""Functions that hide every change between two values that are not empty."""
_ADDED_BY_GOOGLE = {
    "cloudRunV2ServiceResourceLimitsDiffSuppress": "cpu",
    "containerNodePoolLabelsSuppress": "sandbox.gke.io/",
    "containerNodePoolResourceLabelsDiffSuppress": "goog-gke",
    "resourceMonitoringUptimeCheckConfigMonitoredResourceLabelsDiffSuppress": "project_id",
}
"""Starts of keys that Google adds to a map, by the name of the function that hides them."""
_CHECKS: dict[str, Callable[[str, str], bool]] = {
    "tpgresource.CompareSelfLinkOrResourceName": _link_or_name,
    "tpgresource.CompareSelfLinkRelativePaths": lambda a, b: relative_path(a) == relative_path(b),
    "tpgresource.CompareSelfLinkCanonicalPaths": lambda a, b: relative_path(a) == relative_path(b),
    "tpgresource.CompareResourceNames": lambda a, b: last_segment(a) == last_segment(b),
    "tpgresource.CaseDiffSuppress": _case,
    "iamMemberCaseDiffSuppress": _case,
    "StorageBucketDiffSuppress": lambda a, b: last_segment(a) == last_segment(b),
    "tpgresource.DurationDiffSuppress": _duration,
    "durationDiffSuppress": _duration,
    "tpgresource.CidrOrSizeDiffSuppress": _range,
    "IpCidrRangeDiffSuppress": _range,
    "resourceBigQueryDatasetAccessRoleDiffSuppress": lambda a, b: _PRIMITIVE_ROLES.get(b) == a,
    "resourceMonitoringUptimeCheckConfigHttpCheckPathDiffSuppress": lambda a, b: a == f"/{b}",
    "tpgresource.ProjectNumberDiffSuppress": _project_number,
    "OptionalSurroundingSpacesSuppress": lambda a, b: a.strip() == b.strip(),
    "AbsoluteDomainSuppress": lambda a, b: a.rstrip(".") == b.rstrip("."),
    "same JSON": _json,
    "AlwaysDiffSuppress": lambda _a, _b: True,
}
