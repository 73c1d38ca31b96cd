"""The chat template in an engine's flags."""

from collections.abc import Callable
from pathlib import Path

_BUILT_IN = "vllm/transformers_utils/chat_templates"


class NoTemplateError(Exception):
    """There is no file at the path; the message is vLLM's."""


def read_template(given: str | None, host_path: Callable[[str], Path | None]) -> str | None:
    """Return the template of `--chat-template`: the content of a file, or the flag's own text.

    Source: vLLM 0.32.0 `renderers/chat_utils/chat_template.py`; its built-in templates are not
    simulated.

    Args:
        given: Value of the flag.
        host_path: Returns the file of a path in the container, or None if no volume has it.

    Raises:
        NoTemplateError: It looks like a path, and there is no file.
    """
    if given is None:
        return None
    try:
        return (host_path(given) or Path(given)).read_text(encoding="utf-8")
    except OSError as error:
        if any(character in given for character in "{}\n"):
            return given
        raise NoTemplateError(
            f"The supplied chat template string ({given}) appears path-like, but doesn't exist! "
            f"Tried: {given} and {_BUILT_IN}/{given} (parameter=chat_template)"
        ) from error
