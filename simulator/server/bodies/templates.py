"""The text of a chat as a prompt, by the model's own template or by that of a flag."""

from typing import Any, cast

from simulator.server.bodies import messages
from simulator.server.bodies.errors import ApiError

Json = dict[str, Any]
_FAILS = (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError)
"""What a template that compiles can raise for a conversation, besides Jinja's own errors."""


def prompt_text(given: Any, template: str | None) -> str:
    """Return the prompt of a chat without media.

    Args:
        given: Messages.
        template: Template of `--chat-template`, or None. The templates in weights are not
            simulated: all models then write a role and a text per message.

    Raises:
        ApiError: The messages are malformed, or 400 with the template's reason, as vLLM's
            `safe_apply_chat_template`.
    """
    plain = messages.chat_text(given)
    if template is None:
        return plain
    # most engines have no template, and Jinja takes a twentieth of their start
    from jinja2 import TemplateError  # noqa: PLC0415

    from gke_inference.intent.template_syntax import compiled  # noqa: PLC0415

    flat = [
        {**message, "content": messages.content_text(message)}
        for message in cast(list[Json], given)
    ]
    try:
        return compiled(template).render(messages=flat, add_generation_prompt=True, tools=None)
    except (TemplateError, *_FAILS) as error:
        raise ApiError(400, str(error)) from error
