"""How an engine makes prompts: the chat template, and media in messages.

Media are images, videos and audio. An engine that fetches them from any address that a request
names would give clients access to the network of its pod, so only listed domains are allowed.
"""

from collections.abc import Iterator

from gke_inference.catalogue.engines import Abilities, engines_where
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.intent.settings import EngineSettings
from gke_inference.intent.template_syntax import template_problem

_TEMPLATE, _MEDIA = "settings.chat_template", "settings.multimodal"


def prompt_problems(
    settings: EngineSettings,
    able: Abilities,
    where: str,
    *,
    engine: str,
    sees: bool | None,
) -> Iterator[InputError]:
    """Yield the problems of a chat template and of limits of media.

    Args:
        settings: Settings of the engine.
        able: Features of the engine.
        where: Engine and hardware, for messages.
        engine: Name of the engine.
        sees: Whether the model accepts images; None if it is not known.
    """
    chat_template, multimodal = settings.chat_template, settings.multimodal
    if chat_template is not None:
        if not able.chat_template:
            rule = f"must not be set: {where} uses the template in the weights"
            yield InputError(_TEMPLATE, rule)
        elif (problem := template_problem(chat_template)) is not None:
            yield problem.at(_TEMPLATE)
    if sees and able.fetches_any_media:
        limited = engines_where(lambda facts: facts.any_has("multimodal"))
        names = " or ".join(each.name for each in limited)
        rule = f"must be {names} for a model that accepts images"
        yield InputError("engine", f"{rule}: {where} fetches them from every address", engine)
    if multimodal is None:
        return
    if not able.multimodal:
        yield InputError(_MEDIA, f"must not be set: {where} has no limits of media")
    elif sees is False:
        yield InputError(_MEDIA, "must not be set: the model accepts only text")
    if len(set(multimodal.domains)) < len(multimodal.domains):
        rule = "must list each host once"
        yield InputError(f"{_MEDIA}.domains", rule, Bare(", ".join(multimodal.domains)))
