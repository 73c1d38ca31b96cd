"""Pulumi's protection of stateful resources: the engine itself refuses to delete or replace them.

It holds for every run, `pulumi up` and `pulumi destroy` without any command of this repository
included, since it is part of the stack's state. Policies cannot do it: they see what a stack will
have, and not what it loses.
"""

from typing import Any, cast

import pulumi

from infra.plan.stateful import STATEFUL, may_be_lost
from infra.stack import Platform


def protect_stateful(platform: Platform) -> None:
    """Protect every stateful resource that is registered from now on, where the stack is protected.

    What the stack lists in `allow_replace` is not protected, so that one `up` lifts the protection
    and replaces it.
    """
    if not platform.protection:
        return

    def protect(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        if args.type_ in STATEFUL and not may_be_lost(
            platform.allow_replace, args.name, _name_in_cloud(args.props)
        ):
            protected = pulumi.ResourceOptions(protect=True)
            opts = pulumi.ResourceOptions.merge(args.opts, protected)
            return pulumi.ResourceTransformationResult(args.props, opts)
        return pulumi.ResourceTransformationResult(args.props, args.opts)

    pulumi.runtime.register_stack_transformation(protect)


def _name_in_cloud(props: Any) -> str:
    """Return the name that a resource has in the cloud or the cluster; empty if not known yet."""
    known = cast("dict[str, Any]", props)
    metadata: Any = known.get("metadata")
    name: Any = known.get("name")
    if name is None and isinstance(metadata, dict):
        name = cast("dict[str, Any]", metadata).get("name")
    return name if isinstance(name, str) else ""
