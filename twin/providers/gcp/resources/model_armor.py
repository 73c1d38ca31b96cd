"""Model Armor: Google's checks for templates and floor settings."""

import re
from collections.abc import Iterator
from typing import Final

from twin.wire.property_values import CloudError, Json, as_list, as_object, get_path
from twin.world.regions import is_region

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,63}")
_LEVELS: Final = ("LOW_AND_ABOVE", "MEDIUM_AND_ABOVE", "HIGH")
_SWITCHES: Final = ("ENABLED", "DISABLED")
_CHOICES: Final = {
    "filterConfig.maliciousUriFilterSettings.filterEnforcement": _SWITCHES,
    "filterConfig.piAndJailbreakFilterSettings.confidenceLevel": _LEVELS,
    "filterConfig.piAndJailbreakFilterSettings.filterEnforcement": _SWITCHES,
    "filterConfig.sdpSettings.basicConfig.filterEnforcement": _SWITCHES,
    "templateMetadata.enforcementType": ("INSPECT_ONLY", "INSPECT_AND_BLOCK"),
}
_HARMS: Final = ("SEXUALLY_EXPLICIT", "HATE_SPEECH", "HARASSMENT", "DANGEROUS")
_CODES: Final = ("customPromptSafetyErrorCode", "customLlmResponseSafetyErrorCode")


def check_template(values: Json) -> None:
    """Reject a template that Google would reject (rule modelarmor.template).

    Raises:
        CloudError: the first thing that is wrong.
    """
    for problem in _problems(values):
        raise problem


def _problems(values: Json) -> Iterator[CloudError]:
    name, location = str(values.get("templateId")), str(values.get("location"))
    if not _ID.fullmatch(name):
        yield _refused("templateId", "1 to 63 letters, digits, hyphens and underscores", name)
    if not is_region(location) and location not in ("us", "eu"):
        yield _refused("location", "a region, us or eu", location)
    yield from filter_problems(values)
    for field in _CODES:
        code = get_path(values, f"templateMetadata.{field}")
        if code is not None and not 400 <= int(code) <= 599:
            yield _refused(f"templateMetadata.{field}", "a status of an error, 400 to 599", code)


def filter_problems(values: Json) -> Iterator[CloudError]:
    """Yield the errors in the filters of a template or a floor setting."""
    for path, choices in _CHOICES.items():
        found = get_path(values, path)
        if found is not None and found not in choices:
            yield _refused(path, f"one of {', '.join(choices)}", found)
    seen: set[str] = set()
    for at, item in enumerate(
        as_list(get_path(values, "filterConfig.raiSettings.raiFilters")) or []
    ):
        harm = as_object(item) or {}
        where, kind = f"filterConfig.raiSettings.raiFilters[{at}]", str(harm.get("filterType"))
        if kind not in _HARMS:
            yield _refused(f"{where}.filterType", f"one of {', '.join(_HARMS)}", kind)
        if kind in seen:
            yield _refused(f"{where}.filterType", "another than those before it", kind)
        seen.add(kind)
        level = harm.get("confidenceLevel")
        if level is not None and level not in _LEVELS:
            yield _refused(f"{where}.confidenceLevel", f"one of {', '.join(_LEVELS)}", level)


def check_floor(values: Json) -> None:
    """Reject a floor setting that Google would reject.

    Raises:
        CloudError: the first thing that is wrong.
    """
    if values.get("location") != "global":
        raise _refused("location", "global", values.get("location"))
    for problem in filter_problems(values):
        raise problem


def _refused(field: str, wanted: str, got: object) -> CloudError:
    return CloudError(400, f"{field}: must be {wanted}, got {got}", "invalid")
