"""The calculation of a choice, line by line."""

import numpy as np

from gke_inference.sizing.memory import (
    STEP_TOKENS,
    UTILISATION,
    device_gib,
    kv_copies,
    kv_token_bytes,
)
from planner.choice.bound import bound
from planner.choice.candidates import Candidate
from planner.choice.plan import Choice
from planner.choice.question import Question, sequences, traits_of, work_of
from planner.speed.correction import correction
from planner.speed.roofline_step import Parts, Step, step
from planner.speed.throughput import BATCHES, curves


def explain(question: Question, choice: Choice) -> list[str]:
    """Return the lines, with units, from memory to money."""
    return [
        *_memory(question, choice),
        *_step(question, choice),
        *_queue(question, choice),
        *_bound(question, choice),
        *_money(question, choice),
        *_start(choice),
    ]


def _memory(question: Question, choice: Choice) -> list[str]:
    one = choice.candidate
    held = sequences(question, one)
    return [
        f"replica: {one.form.label}, {one.form.machine_type}, {one.form.parallelism}, "
        f"{one.form.bits} bit weights",
        *_room(one, question.longest),
        f"left for the KV cache: {one.room.usable:.1f} - {one.room.weights:.1f} - "
        f"{one.room.reserve:.1f} = {one.room.left:.1f} GiB a device, {held:.0f} sequences a copy",
    ]


def _room(one: Candidate, context: int) -> list[str]:
    form, shape = one.form, one.shape
    devices = form.devices * form.stages
    copies = kv_copies(shape, form.split)
    window = shape.window
    return [
        f"memory of a device: {device_gib(form.word):g} GiB x {UTILISATION:.0%} = "
        f"{one.room.usable:.1f} GiB",
        _weights(one, devices),
        f"runtime and activations of {STEP_TOKENS} tokens x {shape.hidden}: "
        f"{one.room.reserve:.1f} GiB",
        f"KV cache of a token: {kv_token_bytes(shape, one.kv_bits)} B over {shape.layers} layers"
        + (f", {copies:g} times" if copies > 1 else "")
        + (f"; {window[1]} layers keep {window[0]} tokens at most" if window else ""),
        f"KV cache of {context} tokens: {one.room.context:.2f} GiB a device",
    ]


def _weights(one: Candidate, devices: int) -> str:
    shape, held = one.shape, f"{one.room.weights:.1f} GiB"
    if one.form.experts:
        return (
            f"weights: 1/{devices} of the experts and a copy of the other layers, of "
            f"{shape.parameters_billion:g} billion x {shape.bits} bit / 8 = {held}"
        )
    return (
        f"weights: {shape.parameters_billion:g} billion x {shape.bits} bit / 8 / {devices} "
        f"devices = {held}"
    )


def _step(question: Question, choice: Choice) -> list[str]:
    work = work_of(question, choice.candidate)
    batch = np.array([max(1.0, choice.batch)])
    made: Step = step(work, batch)
    wanted = traits_of(question, [choice.candidate])
    wanted.numbers[:, 0] = np.log(batch)
    factor = float(np.exp(correction().mean(wanted)[0]))
    return [
        f"batch of a copy at this rate: {choice.batch:.1f} sequences{_in_stages(choice, made)}",
        f"step that only decodes: {_decode(question, made.alone)} = {_ms(made.decode)}",
        f"step that computes {float(made.chunk[0]):.0f} prompt tokens beside: computing "
        f"{_ms(made.mixed.compute)}, in all {_ms(made.with_prompt)}; "
        f"{float(made.part[0]):.0%} of steps",
        *_guess(question),
        f"mean step by the roofline: {_ms(made.seconds)}",
        f"correction from published points of the model: x {factor:.2f}; four in five such "
        f"estimates are within a factor of {choice.spread:.2f}, of the first token "
        f"{choice.spread_first:.2f}",
        f"a request outside its steps (HTTP, tokens, first scheduling): {_ms(work.first)}",
    ]


def _ms(value: np.ndarray) -> str:
    """Return the seconds of the first candidate as milliseconds."""
    return f"{float(value[0]) * 1e3:.2f} ms"


def _decode(question: Question, parts: Parts) -> str:
    """Return the sum of a step without prompts, divided by the tokens that it generates."""
    total = (
        f"max(computing {_ms(parts.compute)}, reading {_ms(parts.memory)}) + "
        f"collectives {_ms(parts.links)} + fixed {_ms(parts.fixed)}"
    )
    guess = question.guess
    return (
        total if guess is None else f"({total} + drafting {_ms(parts.drafts)}) / {guess.length:.2f}"
    )


def _guess(question: Question) -> list[str]:
    guess = question.guess
    if guess is None:
        return []
    return [
        f"speculative decoding with {guess.method}: {guess.tokens} draft "
        f"{'token' if guess.tokens == 1 else 'tokens'}, of which a step keeps "
        f"{guess.length - 1:.2f} and generates one more ({guess.low:.2f} to {guess.high:.2f} "
        f"in all; {guess.source}); the mean step is for one token"
    ]


def _in_stages(choice: Choice, made: Step) -> str:
    stages = choice.candidate.form.stages
    if stages == 1:
        return ""
    return (
        f", in {float(made.batches[0]):.2g} micro-batches that each pass {stages} stages in series"
    )


def _queue(question: Question, choice: Choice) -> list[str]:
    one = choice.candidate
    lines = curves(
        work_of(question, one),
        traits_of(question, [one]),
        np.array([sequences(question, one)]),
    )
    kept = (
        (lines.ttft95[0] <= question.ttft_p95_ms / 1e3)
        & (lines.step95[0] <= question.tpot_p95_ms / 1e3)
        & (lines.fits[0] > 0)
    )
    copies = one.form.copies
    if not kept.any():
        return ["no batch meets the SLO on this hardware"]
    rates = np.where(kept, lines.rate[0], 0.0)
    best = int(np.argmax(rates))
    return [
        f"largest batch that keeps {question.ttft_p95_ms:g} ms to the first token and "
        f"{question.tpot_p95_ms:g} ms between tokens (95th percentiles): {BATCHES[best]:.0f}",
        f"a copy then serves {float(rates[best]):.2f} requests/s, a replica of {copies} "
        f"{float(rates[best]) * copies:.2f}",
        f"replicas: {question.rate:g} / ({float(rates[best]) * copies:.2f} x "
        f"{question.utilisation:.0%}) = {choice.replicas}, at the slow end {choice.replicas_high}",
        f"at {question.rate:g} requests/s: first token {choice.ttft_p95_ms.value:.0f} ms, between "
        f"tokens {choice.tpot_p95_ms.value:.1f} ms, {choice.utilisation:.0%} used",
    ]


def _bound(question: Question, choice: Choice) -> list[str]:
    found = bound(question, choice.candidate)
    shares = ", ".join(f"{name} {share:.0%}" for name, share in found.shares.items())
    return [
        f"bound: {found.name}: {found.reason}",
        f"mean step at a batch of {found.batch:.0f}: {shares}",
    ]


def _money(question: Question, choice: Choice) -> list[str]:
    if choice.price is None or choice.usd_per_hour is None or choice.usd_per_million is None:
        return [f"price: none is published for {choice.provisioning} in {choice.region}"]
    each = choice.price
    lacks = ", for its accelerators alone" if each.lacks_host else ""
    tokens = question.rate * question.made * 3600 / 1e6
    return [
        f"price of a replica, {choice.provisioning} in {choice.region}: ${each.usd_per_hour:.2f}/h"
        f"{lacks} ({each.source}, {each.date}, {each.confidence})",
        f"cost: {choice.replicas} x ${each.usd_per_hour:.2f} = ${choice.usd_per_hour.value:.2f}/h; "
        f"/ {tokens:.2f} million tokens of answers an hour = ${choice.usd_per_million.value:.2f} "
        f"a million",
    ]


def _start(choice: Choice) -> list[str]:
    stages = ", ".join(f"{stage.name} {stage.seconds:.0f} s" for stage in choice.start.stages)
    return [
        f"cold start: {stages} = {choice.start.seconds:.0f} s "
        f"({choice.start.low:.0f} to {choice.start.high:.0f})"
    ]
