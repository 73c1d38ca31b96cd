"""The command line of an engine, built from its serving configuration; the only place for flags."""

from collections.abc import Callable

from . import diffusion, sglang, tgi, triton, vllm
from .spec import Serving, SpecError

_ENGINES: dict[str, tuple[tuple[str, ...], Callable[[Serving], list[str]]]] = {
    "diffusion": (diffusion.COMMAND, diffusion.arguments),
    "sglang": (sglang.COMMAND, sglang.arguments),
    "tgi": (tgi.COMMAND, tgi.arguments),
    "triton": (triton.COMMAND, triton.arguments),
    "vllm": (vllm.COMMAND, vllm.arguments),
}
ENGINES = tuple(sorted(_ENGINES))
"""Engine names, as used in the stack."""


def command(serving: Serving) -> list[str]:
    """Return the command of an engine with its arguments.

    Raises:
        SpecError: There is no such engine.
    """
    return [*program(serving.engine), *arguments(serving)]


def program(engine: str) -> tuple[str, ...]:
    """Return the command of an engine without arguments.

    Raises:
        SpecError: There is no such engine.
    """
    return _entry(engine)[0]


def arguments(serving: Serving) -> list[str]:
    """Return the arguments of an engine.

    Raises:
        SpecError: There is no such engine.
    """
    return [*_entry(serving.engine)[1](serving), *serving.extra_arguments]


def environment(serving: Serving) -> dict[str, str]:
    """Return an engine's settings that are environment variables, not flags."""
    own = {"tgi": tgi.environment, "vllm": vllm.environment}
    return own[serving.engine](serving) if serving.engine in own else {}


def _entry(engine: str) -> tuple[tuple[str, ...], Callable[[Serving], list[str]]]:
    if engine not in _ENGINES:
        raise SpecError(f"engine: must be one of {', '.join(ENGINES)}, got {engine!r}")
    return _ENGINES[engine]
