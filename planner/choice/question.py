"""What is asked of the planner, and the throughput of a candidate under it: no prices."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gke_inference.catalogue.accelerators import PROVISIONING
from gke_inference.catalogue.engines import DEFAULT_ENGINE
from gke_inference.catalogue.input_error import Bare, InputError
from gke_inference.sizing.architectures import Architecture, known
from gke_inference.sizing.memory import kv_cache_gib
from planner.choice.candidates import Candidate
from planner.speed.constants import reached_of
from planner.speed.correction import Traits, gather, traits
from planner.speed.roofline_step import Array, Work, stack, work
from planner.speed.speculation import METHODS, MOST_TOKENS, Speculation, speculation
from planner.speed.throughput import OperatingPoints, curves, operating_points

FOR_SERVING = tuple(provisioning for provisioning in PROVISIONING if provisioning != "calendar")
"""Provisioning that suits a server; a calendar reservation has an end date."""
NO_LIMIT_MS = 1e9
"""Latency limit that has no effect."""
_BITS = (4, 8, 16, 32)
_DECODED = ("dense", "moe")
"""Kinds of models that generate tokens one after the other."""
KV_BITS = (8, 16)
MOST_ADAPTERS = 64
"""Most different adapters in one batch, as `live_adapters.slots` of a stack."""


@dataclass(frozen=True)
class Question:
    """Model, traffic and SLO to plan for."""

    model: Architecture
    rate: float
    """Peak requests per second."""
    given: int
    """Tokens per prompt."""
    made: int
    """Tokens per answer."""
    ttft_p95_ms: float = 1000.0
    tpot_p95_ms: float = 50.0
    prefix_share: float = 0.0
    """Fraction of a prompt that is a prefix of earlier prompts."""
    regions: tuple[str, ...] = ()
    """Regions to consider; empty for all with a price."""
    provisioning: tuple[str, ...] = ()
    """Provisioning to consider; empty for all that suit serving."""
    accelerators: tuple[str, ...] = ()
    """Accelerators, in the user's words; empty for all."""
    bits: tuple[int, ...] = ()
    """Precisions of the weights; empty for the checkpoint's and 8."""
    utilisation: float = 0.7
    """Target utilization of the replicas at peak."""
    context: int = 0
    """Longest sequence, in tokens; 0 for 1.5 times the prompt and the answer."""
    engine: str = DEFAULT_ENGINE
    """Engine, in the user's word; published measurements determine its speed."""
    adapters: int = 0
    """Different LoRA adapters in one batch."""
    kv_bits: int = 16
    """Bits of a number in the KV cache."""
    speculative: tuple[str, int] | None = None
    """Method of speculative decoding, and the draft tokens of a step."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            InputError: A number is out of range.
        """
        if unknown := sorted(set(self.bits) - set(_BITS)):
            raise InputError("bits", f"must be one of {', '.join(map(str, _BITS))}", unknown[0])
        positive = ("rate", "given", "made", "ttft_p95_ms", "tpot_p95_ms")
        for field in positive:
            value = getattr(self, field)
            if not 0 < value < math.inf:
                raise InputError(field, "must be a number above 0", Bare(f"{value:g}"))
        if self.kv_bits not in KV_BITS:
            rule = f"must be one of {', '.join(map(str, KV_BITS))}"
            raise InputError("kv_bits", rule, self.kv_bits)
        if not 0 <= self.adapters <= MOST_ADAPTERS:
            raise InputError(
                "adapters", f"must be 0 to {MOST_ADAPTERS}, the most of one batch", self.adapters
            )
        if self.speculative is not None:
            self._check_speculative(*self.speculative)
        if not 0 <= self.prefix_share < 1:
            raise InputError("prefix_share", "must be at least 0 and below 1", self.prefix_share)
        if not 0 < self.utilisation <= 1:
            raise InputError("utilisation", "must be above 0 and at most 1", self.utilisation)
        if self.context and self.context < self.given + self.made:
            least = f"the {self.given + self.made} tokens of input and output together"
            raise InputError("context", f"must be at least {least}, or 0", self.context)
        if 0 < self.model.context < self.given + self.made:
            most = f"the {self.model.context} tokens of {self.model.name} together"
            raise InputError("input and output", f"must be at most {most}", self.given + self.made)

    def _check_speculative(self, method: str, tokens: int) -> None:
        if method not in METHODS:
            raise InputError("speculative", f"must be one of {', '.join(METHODS)}", method)
        if not 1 <= tokens <= MOST_TOKENS:
            raise InputError("speculative", f"must have 1 to {MOST_TOKENS} tokens", tokens)
        if self.model.kind not in _DECODED:
            of_kind = Bare(f"it with the {self.model.kind} model {self.model.name!r}")
            raise InputError("speculative", "must not be set: nothing is decoded", of_kind)
        if method == "mtp" and not self.model.mtp_layers:
            names = ", ".join(one.name for one in known() if one.mtp_layers)
            rule = f"must not be mtp for {self.model.name}, which has no MTP layers"
            rule += f"; models with them: {names}"
            raise InputError("speculative", rule, f"{method}:{tokens}")

    @property
    def guess(self) -> Speculation | None:
        """What speculative decoding does for the model, or None without it."""
        if self.speculative is None:
            return None
        return speculation(*self.speculative, self.model.name)

    @property
    def longest(self) -> int:
        """Longest sequence to reserve memory for, in tokens."""
        wanted = self.context or int(1.5 * (self.given + self.made))
        return min(wanted, self.model.context) if self.model.context else wanted


@dataclass(frozen=True)
class Estimate:
    """An estimate with its 80 % interval."""

    value: float
    low: float
    high: float


def work_of(question: Question, one: Candidate) -> Work:
    """Return the work of one candidate."""
    return work(
        one.shape,
        one.form.chip,
        tensor=one.form.tensor,
        stages=one.form.stages,
        network=one.form.network or "tcp",
        kv_bits=one.kv_bits,
        given=question.given,
        made=question.made,
        prefix_share=question.prefix_share,
        groups=one.form.devices if one.form.experts else 1,
        adapters=question.adapters,
        backend=one.backend,
        guess=question.guess,
        reached=reached_of(question.engine, one.form.chip.name, one.shape),
    )


def traits_of(question: Question, held: Sequence[Candidate]) -> Traits:
    """Return the traits of candidates for the correction."""
    return gather(
        [
            traits(
                engine=question.engine,
                accelerator=one.form.chip.name,
                batch=1,
                given=question.given,
                made=question.made,
                chips=one.form.tensor * one.form.stages,
                active=one.shape.active_billion,
                total=one.shape.parameters_billion,
                bits=one.shape.bits,
                load="concurrent",
                split=one.form.split_kind,
                hosts="several" if one.form.hosts > 1 and not one.form.topology else "one",
            )
            for one in held
        ]
    )


def sequences(question: Question, one: Candidate) -> float:
    """Return the number of sequences that fit the KV cache of a copy."""
    length = question.given + question.made / 2
    form = one.form
    each = kv_cache_gib(length, one.shape, tensor=form.split, stages=form.stages, bits=one.kv_bits)
    groups = form.devices // form.split
    return one.room.left / each * groups


def operating_points_of(question: Question, held: Sequence[Candidate]) -> OperatingPoints:
    """Return the largest batches within the SLO, and the candidates' throughput at those."""
    wanted = traits_of(question, held)
    every = stack([work_of(question, one) for one in held])
    room = np.array([sequences(question, one) for one in held])
    lines = curves(every, wanted, room)
    return operating_points(
        lines,
        wanted,
        np.array([float(one.form.copies) for one in held]),
        rate=question.rate,
        ttft95=question.ttft_p95_ms / 1e3,
        step95=question.tpot_p95_ms / 1e3,
        utilisation=question.utilisation,
        doubt=_doubts(question, held),
    )


_LINK_DOUBT = {"nvidia-rtx-pro-6000": 1.5}
"""Factor up and down for replicas of several chips whose links nobody has measured with vLLM. G4
has a fabric of its own: TensorRT-LLM's points fit the full rate, and a plain machine with this chip
was 1.25 times slower (LLMServingSim's run of Qwen3-32B on two)."""


def _doubts(question: Question, held: Sequence[Candidate]) -> Array:
    """Return factors that widen the intervals of candidates, beside what is unknown of a model."""
    guess = np.log(question.guess.doubt) if question.guess else 0.0
    links = [
        np.log(_LINK_DOUBT.get(one.form.chip.name, 1.0)) if one.form.tensor > 1 else 0.0
        for one in held
    ]
    return np.exp(np.sqrt(guess**2 + np.array(links) ** 2))
