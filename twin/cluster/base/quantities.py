"""Kubernetes quantities as numbers. Pure."""

from collections.abc import Mapping

from twin.providers.kubernetes.manifests.quantities import amount

Amounts = dict[str, float]
"""Resource name to amount, in the resource's base unit (cores, bytes, devices)."""


def quantity(text: object) -> float:
    """Return a Kubernetes quantity as a number.

    Raises:
        ValueError: the text is not a quantity.
    """
    found = amount(str(text))
    if found is None:
        raise ValueError(f"not a quantity: {text!r}")
    return float(found)


def amounts(resources: Mapping[str, object]) -> Amounts:
    """Return a resource list as numbers."""
    return {name: quantity(value) for name, value in resources.items()}
