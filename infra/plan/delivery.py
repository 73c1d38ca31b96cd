"""Delivery tools that platforms install."""

from infra.stack import DeliveryKind, DeliveryTool, Layer, Platform


def has_config_sync(platform: Platform) -> bool:
    """Return whether a platform installs Config Sync. Its serving stacks only use it."""
    delivery = platform.delivery
    return (
        platform.layer is Layer.PLATFORM
        and delivery.kind is DeliveryKind.GITOPS
        and delivery.tool is not DeliveryTool.ARGO_CD
    )
