"""Retries of what depends on a change of access that was made a moment ago."""

import asyncio
import re
from typing import Final

import pulumi

_LONGEST_SECONDS: Final = 30.0
_TRIES: Final = 20
"""Retries for eight minutes. Google documents two as typical, and seven or more as possible
(docs.cloud.google.com/iam/docs/access-change-propagation, 2026-11-26)."""
_UNKNOWN: Final = re.compile(r"Service account \S+ does not exist")
"""Error for a service agent that IAM does not know yet. The provider does not retry it
(hashicorp/terraform-provider-google tpgiamresource/iam.go)."""
_DENIED: Final = re.compile(r"Error 40[03]\b.*(permission|access)", re.DOTALL | re.IGNORECASE)
"""Errors for a role without effect so far."""
_OF_CALLER: Final = re.compile(
    r"Policy update access denied|IAM policy for|caller does not have permission"
    r"|\.(create|get|getIamPolicy|setIamPolicy)'? denied",
    re.IGNORECASE,
)
"""Errors for a permission that the deploying identity itself does not have, where waiting does not
help (hashicorp/terraform-provider-google issues 10079 and 12640; GoogleCloudPlatform/
java-docs-samples issue 6571)."""


def until_effective(parent: pulumi.Resource, name: str) -> pulumi.ResourceHookBinding:
    """Return hooks that repeat a creation until earlier changes of access have taken effect.

    Use it for few resources: if Google rejects the deletion of one by `pulumi destroy`, the engine
    (3.250) reports that the hook is not registered instead of Google's error.

    Args:
        parent: Component whose children use the hooks.
        name: Its name.
    """
    hook = pulumi.ErrorHook(f"{type(parent).__name__}-{name}-access", _retry)
    return pulumi.ResourceHookBinding(on_error=[hook])


async def _retry(args: pulumi.ErrorHookArgs) -> bool:
    """Wait and return true if an error may come from access that is not in effect yet."""
    failures, newest = len(args.errors), args.errors[0]
    if args.failed_operation == "delete" or failures > _TRIES or not _is_early(newest):
        return False
    seconds = wait_seconds(failures)
    pulumi.log.info(f"{args.name}: retried in {seconds:g} s, as access takes effect late: {newest}")
    await asyncio.sleep(seconds)
    return True


def _is_early(error: str) -> bool:
    if _UNKNOWN.search(error):
        return True
    return _DENIED.search(error) is not None and _OF_CALLER.search(error) is None


def wait_seconds(failures: int) -> float:
    """Return the time before the next try: doubled each time, up to half a minute."""
    return min(2.0 ** (failures - 1), _LONGEST_SECONDS)
