"""Answers of each model, through the official client: text, vectors, images, videos, adapters."""

import base64
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from infra.plan import ServedModel
from infra.stack import Task
from scripts.accept.deployed import Deployed, seen
from scripts.accept.row import Row, Subject
from scripts.shared.model_client import is_mp4, video_of

if TYPE_CHECKING:
    from openai import OpenAI

_PROMPT: Final = "Say in one sentence what an inference gateway is for."
_IMAGE_PROMPT: Final = "A red bicycle"
_TOKENS: Final = 16
_STREAMS: Final = 5
_PNG: Final = b"\x89PNG"


@dataclass(frozen=True)
class Stream:
    """A streamed answer; times are in seconds since the request."""

    pieces: tuple[float, ...]
    """Arrival time of each piece of text."""
    last_usage: int | None
    """Tokens of the answer, as counted in the last event; None without a count."""


def answers(deployed: Deployed) -> Iterator[Row]:
    """Yield whether each model answers as its task promises, in each region."""
    for region in deployed.plan.regions:
        for served in deployed.plan.regions[region].served:
            if served.version is None:
                yield from _answers(deployed, served)


def _answers(deployed: Deployed, served: ServedModel) -> Iterator[Row]:
    task = served.settings.task
    yield _asked(deployed, served, *question_of(task))
    if task is Task.GENERATE:
        yield _asked(deployed, served, "completion", "text, and a count of its tokens", _completion)
    for other in served.settings.further_models:
        yield _asked(deployed, served, "further model", "a PNG", _image, other)
    for adapter in served.settings.adapter_names(served.name):
        if task is Task.IMAGE:
            yield _asked(deployed, served, "adapter", "a PNG", _image, adapter)
        elif task is Task.GENERATE:
            yield _asked(
                deployed, served, "adapter", "text, and a count of its tokens", _chat, adapter
            )


Ask = Callable[[Subject, "OpenAI", str], Row]
"""Sends a request to a model or adapter, and judges the answer."""


def question_of(task: Task) -> tuple[str, str, Ask]:
    """Return the first question for a task: its kind, the prediction, and the question."""
    if task is Task.EMBED:
        return "embeddings", "a vector of numbers", _embedding
    if task is Task.IMAGE:
        return "image", "a PNG", _image
    if task is Task.VIDEO:
        return "video", "an MP4", _video
    if task is Task.PREDICT:
        return "prediction", "outputs for inputs of zeros", _prediction
    return "chat", "text, and a count of its tokens", _chat


def _asked(
    deployed: Deployed,
    served: ServedModel,
    kind: str,
    predicted: str,
    ask: Ask,
    adapter: str | None = None,
) -> Row:
    name = served.name if adapter is None else f"{adapter} of {served.name}"
    subject = Subject(kind, f"{name} in {served.region}", predicted)

    def look() -> Row:
        asked = adapter or served.name
        with deployed.asking(deployed.door(served.region), asked) as client:
            return ask(subject, client, asked)

    return seen(subject, look)


def _chat(subject: Subject, client: "OpenAI", model: str) -> Row:
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": _PROMPT}], max_tokens=_TOKENS
    )
    text = answer.choices[0].message.content if answer.choices else None
    return _judged_text(subject, text, answer.usage)


def _completion(subject: Subject, client: "OpenAI", model: str) -> Row:
    answer = client.completions.create(model=model, prompt=_PROMPT, max_tokens=_TOKENS)
    text = answer.choices[0].text if answer.choices else None
    return _judged_text(subject, text, answer.usage)


def _judged_text(subject: Subject, text: str | None, usage: Any) -> Row:
    counted = 0 if usage is None else int(usage.completion_tokens)
    if not (text or "").strip():
        return subject.not_met("an answer without text")
    if not 0 < counted <= _TOKENS:
        return subject.not_met(f"text of {counted} tokens; must be 1 to {_TOKENS}, as asked for")
    return subject.met(f"text of {counted} tokens")


def _embedding(subject: Subject, client: "OpenAI", model: str) -> Row:
    answer = client.embeddings.create(model=model, input=_PROMPT, encoding_format="float")
    vector = answer.data[0].embedding if answer.data else []
    return subject.judged(f"a vector of {len(vector)} numbers", is_met=any(vector))


def _image(subject: Subject, client: "OpenAI", model: str) -> Row:
    answer = client.images.generate(model=model, prompt=_IMAGE_PROMPT)
    file = base64.b64decode((answer.data[0].b64_json or "") if answer.data else "")
    if not file.startswith(_PNG):
        return subject.not_met(f"{len(file)} bytes that are not a PNG")
    return subject.met(f"a PNG of {len(file):,} bytes")


def _video(subject: Subject, client: "OpenAI", model: str) -> Row:
    file = video_of(client, model, _IMAGE_PROMPT)
    if not is_mp4(file):
        return subject.not_met(f"{len(file)} bytes that are not an MP4")
    return subject.met(f"an MP4 of {len(file):,} bytes")


def _prediction(subject: Subject, client: "OpenAI", model: str) -> Row:
    """Ask with the inputs that the model's metadata describes, the smallest, all zeros."""
    base = str(client.base_url).rstrip("/").removesuffix("/v1")
    models, name = client.with_options(base_url=f"{base}/v2/models"), quote(model, safe="")
    described: Any = models.get(name, cast_to=object)
    inputs = [_zeros(each) for each in described["inputs"]]
    answer: Any = models.post(f"{name}/infer", cast_to=object, body={"inputs": inputs})
    outputs = [each["name"] for each in answer["outputs"] if each["data"]]
    wanted = [each["name"] for each in described["outputs"]]
    said = f"values of {', '.join(outputs) or 'no output'}"
    return subject.judged(said, is_met=sorted(outputs) == sorted(wanted))


def _zeros(tensor: Any) -> dict[str, Any]:
    shape = [max(1, side) for side in tensor["shape"]]
    kind = str(tensor["datatype"])
    zero: Any = "" if kind == "BYTES" else False if kind == "BOOL" else 0
    return {
        "name": tensor["name"],
        "datatype": kind,
        "shape": shape,
        "data": [zero] * prod(shape),
    }


def streams(deployed: Deployed) -> Iterator[Row]:
    """Yield whether answers are streamed, and their speed against the SLO of the stack."""
    for region in deployed.plan.regions:
        for served in deployed.plan.regions[region].served:
            if served.version is None and served.settings.task is Task.GENERATE:
                yield from _streamed(deployed, served)


def _streamed(deployed: Deployed, served: ServedModel) -> Iterator[Row]:
    where = f"{served.name} in {served.region}"
    subject = Subject(
        "streaming", where, "the first token before the last, and a final usage event"
    )
    read: list[Stream] = []

    def look() -> Row:
        door = deployed.door(served.region)
        for _ in range(_STREAMS):
            with deployed.asking(door, served.name) as client:
                read.append(stream(client, served.name))
        return judged_stream(subject, read[0])

    yield seen(subject, look)
    slo = served.settings.slo
    limit = None if slo is None else slo.ttft_p95_ms
    first = Subject("first token", where, "no promise" if limit is None else f"{limit:g} ms (p95)")
    if len(read) < _STREAMS or not all(each.pieces for each in read):
        yield first.skipped("not every answer was streamed")
    else:
        yield judged_first(first, [each.pieces[0] * 1000 for each in read], limit)


def stream(client: "OpenAI", model: str) -> Stream:
    """Return one streamed answer from a model."""
    pieces: list[float] = []
    usage: int | None = None
    begun = time.monotonic()
    for chunk in client.chat.completions.create(
        model=model,
        messages=[{"role": "user", "content": _PROMPT}],
        max_tokens=_TOKENS,
        stream=True,
        stream_options={"include_usage": True},
    ):
        if any(choice.delta.content for choice in chunk.choices):
            pieces.append(time.monotonic() - begun)
        usage = None if chunk.usage is None else chunk.usage.completion_tokens
    return Stream(tuple(pieces), usage)


def judged_stream(subject: Subject, read: Stream) -> Row:
    """Return whether an answer was streamed: several pieces in sequence, then usage."""
    if not read.pieces:
        return subject.not_met("the stream ended without a token")
    took = (read.pieces[-1] - read.pieces[0]) * 1000
    says = f"{len(read.pieces)} pieces over {took:.0f} ms"
    if len(read.pieces) < 2 or took <= 0:
        return subject.not_met(f"{says}: the answer arrived all at once")
    if not read.last_usage:
        return subject.not_met(f"{says}; the last event has no usage")
    return subject.met(f"{says}, usage of {read.last_usage} tokens")


def judged_first(subject: Subject, found: list[float], limit: float | None) -> Row:
    """Return whether times to first token meet an SLO for their 95th percentile.

    A few requests do not give a percentile. The SLO is certainly missed only if half of the
    requests miss it, so the median is judged.

    Args:
        subject: Subject of the row.
        found: Times to first token, in milliseconds.
        limit: SLO, in milliseconds; None without one.
    """
    middle = median(found)
    says = f"{middle:.0f} ms, the slowest {max(found):.0f} ms ({len(found)} requests, no load)"
    if limit is None:
        return subject.skipped(f"{says}; the stack has no slo.ttft_p95_ms")
    return subject.judged(says, is_met=middle <= limit)
