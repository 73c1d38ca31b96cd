"""Which platforms bring what applies models from git."""

from infra.stack import DeliveryKind, DeliveryTool, Layer, Platform


def has_config_sync(platform: Platform) -> bool:
    """Return whether a platform installs Config Sync; its serving stacks only use it."""
    delivery = platform.delivery
    return (
        platform.layer is Layer.PLATFORM
        and delivery.kind is DeliveryKind.GITOPS
        and delivery.tool is not DeliveryTool.ARGO_CD
    )
