"""How an engine makes prompts: the chat template, and media in messages.

Media are images, videos and audio. An engine that fetches them from any address that a request
names would give clients access to the network of its pod, so only listed domains are allowed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from gke_inference.catalogue.engines import Abilities
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.intent.readers import whole
from gke_inference.intent.template_syntax import template_problem

KINDS = ("audio", "image", "video")
_HOST = re.compile(r"([a-z0-9]([-a-z0-9]*[a-z0-9])?\.)+[a-z]{2,}")
MOST_MEDIA = 999
"""vLLM's default limit of each kind of media (docs.vllm.ai configuration/engine_args)."""


class MultimodalArgs(TypedDict):
    """Limits of media in one prompt."""

    audio: NotRequired[int]
    """Maximum number of audio clips, 0 to 999. Default: the engine's."""
    domains: NotRequired[list[str]]
    """Hosts from which the engine may fetch media, such as `images.example.com`. Default: none, so
    a request must contain its media as data URLs."""
    image: NotRequired[int]
    """Maximum number of images, 0 to 999. Default: the engine's."""
    video: NotRequired[int]
    """Maximum number of videos, 0 to 999. Default: the engine's."""


@dataclass(frozen=True)
class Multimodal:
    """Limits of media in one prompt."""

    limits: Mapping[str, int]
    """Maximum number by kind of media, where it is not the engine's default."""
    domains: tuple[str, ...] = ()


def multimodal_of(args: Mapping[str, Any] | None) -> Multimodal | None:
    """Return the limits of media in arguments, or None if there are none.

    Raises:
        InputError: A number is out of range.
    """
    if args is None:
        return None
    where = "multimodal."
    given = [kind for kind in KINDS if args.get(kind) is not None]
    return Multimodal(
        limits={kind: whole(args, kind, 0, MOST_MEDIA, where=where) for kind in given},
        domains=tuple(map(str, args.get("domains") or ())),
    )


def prompt_problems(
    chat_template: str | None,
    multimodal: Multimodal | None,
    able: Abilities,
    where: str,
    *,
    engine: str,
    sees: bool | None,
) -> Iterator[InputError]:
    """Yield the problems of a chat template and of limits of media.

    Args:
        chat_template: The template's text, or None.
        multimodal: Limits of media, or None.
        able: Features of the engine.
        where: Engine and hardware, for messages.
        engine: Name of the engine.
        sees: Whether the model accepts images; None if it is not known.
    """
    if chat_template is not None:
        if not able.chat_template:
            rule = f"must not be set: {where} uses the template in the weights"
            yield InputError("chat_template", rule)
        elif (problem := template_problem(chat_template)) is not None:
            yield problem.at("chat_template")
    if sees and able.fetches_any_media:
        rule = "must be vllm or sglang for a model that accepts images"
        yield InputError("engine", f"{rule}: {where} fetches them from every address", engine)
    if multimodal is None:
        return
    if not able.multimodal:
        yield InputError("multimodal", f"must not be set: {where} has no limits of media")
    elif sees is False:
        yield InputError("multimodal", "must not be set: the model accepts only text")
    for at, domain in enumerate(multimodal.domains):
        if not _HOST.fullmatch(domain):
            rule = "must be the name of a host, such as images.example.com"
            yield InputError(f"multimodal.domains[{at}]", rule, domain)
    if len(set(multimodal.domains)) < len(multimodal.domains):
        rule = "must list each host once"
        yield InputError("multimodal.domains", rule, Bare(", ".join(multimodal.domains)))
