"""Pulumi protection of stateful resources: the engine refuses to delete or replace them.

Protection is part of the stack's state, so it holds for every run, including `pulumi up` and
`pulumi destroy` without any command of this repository. Policies cannot provide it: they see what a
stack will have, not what it loses.
"""

import pulumi

from infra.plan.stateful import STATEFUL, may_be_lost, name_in_cloud
from infra.stack import Platform


def protect_stateful(platform: Platform) -> None:
    """Protect all stateful resources registered from now on, if the stack is protected.

    Resources listed in `allow_replace` are not protected, so one `up` both lifts the protection and
    replaces them.
    """
    if not platform.protection:
        return

    def protect(args: pulumi.ResourceTransformationArgs) -> pulumi.ResourceTransformationResult:
        if args.type_ in STATEFUL and not may_be_lost(
            platform.allow_replace, args.name, name_in_cloud(args.props)
        ):
            protected = pulumi.ResourceOptions(protect=True)
            opts = pulumi.ResourceOptions.merge(args.opts, protected)
            return pulumi.ResourceTransformationResult(args.props, opts)
        return pulumi.ResourceTransformationResult(args.props, args.opts)

    pulumi.runtime.register_stack_transformation(protect)
