"""What experts and adapters add to a step; on numbers and on arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

if TYPE_CHECKING:  # engines of the simulator use numbers alone, and start without NumPy
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

_EACH_ADAPTER = 0.05
"""Share of a step that the additional matrix products of one LoRA adapter take: assumed."""


@overload
def adapter_factor(adapters: float) -> float: ...
@overload
def adapter_factor(adapters: Array) -> Array: ...
def adapter_factor(adapters: float | Array) -> float | Array:
    """Return how much longer a step computes and reads with different adapters in its batch."""
    return 1 + _EACH_ADAPTER * adapters


@overload
def experts_touched(experts: float, chosen: float, tokens: float) -> float: ...
@overload
def experts_touched(experts: Array, chosen: Array, tokens: Array) -> Array: ...
def experts_touched(
    experts: float | Array, chosen: float | Array, tokens: float | Array
) -> float | Array:
    """Return how many experts of a layer some token of a step passes through, if chosen at random.

    A few tokens already touch many experts: 18 tokens of gpt-oss-120b touch 56 of 128.

    Args:
        experts: Routed experts of a layer, at least 1.
        chosen: Experts that a token passes through.
        tokens: Tokens of the step.
    """
    return experts * (1 - (1 - chosen / experts) ** tokens)


@overload
def read_billion(
    tokens: float,
    *,
    active: float,
    whole: float,
    experts: float,
    chosen: float,
    expert: float,
    copies: float = 1.0,
) -> float: ...
@overload
def read_billion(
    tokens: Array,
    *,
    active: Array,
    whole: Array,
    experts: Array,
    chosen: Array,
    expert: Array,
    copies: float | Array = 1.0,
) -> Array: ...
def read_billion(
    tokens: Any,
    *,
    active: Any,
    whole: Any,
    experts: Any,
    chosen: Any,
    expert: Any,
    copies: Any = 1.0,
) -> float | Array:
    """Return the parameters that a step reads, in billions.

    Args:
        tokens: Tokens of the step.
        active: Parameters that one token passes through, in billions.
        whole: Parameters that a large batch reads, in billions.
        experts: Routed experts of a layer; 0 if not known.
        chosen: Experts that a token passes through.
        expert: Parameters of one expert in all layers, in billions; 0 if not known.
        copies: Copies of the layers without experts, each of which is read: with expert
            parallelism, one on each device.
    """
    # a plan asks this a hundred thousand times, and NumPy is slow with one number
    if isinstance(tokens, int | float) and isinstance(expert, int | float):
        if expert <= 0:
            return min(whole, active * max(1.0, tokens**0.75))
        drawn = experts_touched(max(experts, 1), chosen, tokens)
        return (active - chosen * expert) * copies + drawn * expert
    import numpy as np  # noqa: PLC0415 - see above

    drawn = experts_touched(np.maximum(experts, 1), np.asarray(chosen), np.asarray(tokens))
    known = (active - chosen * expert) * copies + drawn * expert
    unknown = np.minimum(whole, active * np.maximum(1.0, tokens**0.75))
    found = cast("Array", np.where(np.asarray(expert) > 0, known, unknown))
    return found if found.ndim else float(found)
