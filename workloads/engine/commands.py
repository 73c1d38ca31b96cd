"""The command line of an engine, built from its serving configuration; the only place for flags."""

import re
from collections.abc import Callable, Mapping

from . import diffusion, sglang, tgi, triton, tritonserver, vllm
from .spec import Serving, SpecError

_ENGINES: dict[str, tuple[tuple[str, ...], Callable[[Serving], list[str]]]] = {
    "diffusion": (diffusion.COMMAND, diffusion.arguments),
    "sglang": (sglang.COMMAND, sglang.arguments),
    "tgi": (tgi.COMMAND, tgi.arguments),
    "triton": (triton.COMMAND, triton.arguments),
    "tritonserver": (tritonserver.COMMAND, tritonserver.arguments),
    "vllm": (vllm.COMMAND, vllm.arguments),
}
ENGINES = tuple(sorted(_ENGINES))
"""Engine names, as used in the stack."""

_REFERENCE = re.compile(r"(--[a-z-]+=)\$\((LWS_[A-Z_]+)\)")


def command(serving: Serving, variables: "Mapping[str, str]") -> list[str]:
    """Return the command of an engine with its arguments.

    Args:
        serving: Serving configuration.
        variables: Variables in the places that the platform's own arguments name. Arguments of
            users are as written.

    Raises:
        SpecError: There is no such engine.
    """
    own = [_resolved(word, variables) for word in own_arguments(serving)]
    return [*program(serving.engine), *own, *serving.extra_arguments]


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
    return [*own_arguments(serving), *serving.extra_arguments]


def own_arguments(serving: Serving) -> list[str]:
    """Return the arguments that the platform sets.

    Raises:
        SpecError: There is no such engine.
    """
    return _entry(serving.engine)[1](serving)


def is_reference(word: str) -> bool:
    """Return whether an argument of the platform is a flag with a variable of the pod."""
    return _REFERENCE.fullmatch(word) is not None


def _resolved(word: str, variables: "Mapping[str, str]") -> str:
    found = _REFERENCE.fullmatch(word)
    return word if found is None else f"{found[1]}{variables.get(found[2], f'$({found[2]})')}"


def environment(serving: Serving) -> dict[str, str]:
    """Return an engine's settings that are environment variables, not flags."""
    own = {"tgi": tgi.environment, "vllm": vllm.environment}
    return own[serving.engine](serving) if serving.engine in own else {}


def _entry(engine: str) -> tuple[tuple[str, ...], Callable[[Serving], list[str]]]:
    if engine not in _ENGINES:
        raise SpecError(f"engine: must be one of {', '.join(ENGINES)}, got {engine!r}")
    return _ENGINES[engine]
