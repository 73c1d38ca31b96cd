"""Settings of a server, from a JSON file that the platform writes."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from .families import SDXL, WAN, Family, family_of

MOST_GUIDANCE = 100.0
SAFE_STEPS = 100
LATENT_FRAME = 4
"""Frames of a video that its decoder makes of each latent frame after the first."""
RANKS = (4, 8, 16, 32, 64, 128)
"""Ranks that programs are compiled for; an adapter is padded to the next rank."""


@dataclass(frozen=True)
class BaseModel:
    """A further model of a server."""

    model: str
    """Name that clients use."""
    folder: str
    """Folder of the weights, in diffusers' layout."""
    steps: int = 0
    """Same as `Settings.steps`."""
    sigmas: tuple[float, ...] = ()
    """Same as `Settings.sigmas`."""
    text_tokens: int = 0
    """Tokens of a prompt; 0: same as for the first model."""
    chips: int = 0
    """Same as `Settings.chips`."""


@dataclass(frozen=True)
class Settings:
    """Settings of a server."""

    model: str
    """Name that clients use."""
    folder: str
    """Folder of the weights, in diffusers' layout."""
    base_models: tuple[BaseModel, ...] = ()
    """Further models. They have the sizes, the step cache and the batches of the first, and no
    adapters."""
    chips: int = 0
    """Number of processes that hold this model and no other; 0 for every model: each process holds
    all models."""
    adapters: dict[str, str] = field(default_factory=dict[str, str])
    """Folders of LoRA adapters, by the name that clients use in place of the model's."""
    live_adapters: str = ""
    """Folder with adapters that can be added and removed while the server runs; empty: none."""
    live_rank: int = 16
    """Largest rank of live adapters; the next of `RANKS` is compiled in advance."""
    adapter_slots: int = 8
    """Number of adapters that a chip keeps; the least recently used is evicted."""
    max_adapters: int = 1
    """Maximum number of adapters in a request. With several, a program for their ranks together is
    compiled in advance."""
    pipeline: str = ""
    """Pipeline as `MODULE:FUNCTION`; a leading dot means this package. Empty: the family's."""
    workers: int = 1
    """Number of processes, one for each chip."""
    port: int = 8000
    host: str = "0.0.0.0"  # noqa: S104 - a pod's probes and the load balancer come from outside
    platform: str = "tpu"
    """Platform: `tpu` or `cpu`."""
    sizes: tuple[tuple[int, int], ...] = ((1024, 1024),)
    """Width and height of images, in pixels. Each has its own program; the first is the default."""
    frames: tuple[int, ...] = (81,)
    """Numbers of frames of videos, each a multiple of 4 plus 1, as Wan's decoder has them. Each has
    its own program; the first is the default."""
    fps: int = 16
    """Frames per second of videos: 16 is what Wan 2.1 was trained with."""
    steps: int = 0
    """Default number of denoising steps; 0: the model's (`families.family_of`)."""
    sigmas: tuple[float, ...] = ()
    """Noise level before each step, for a model that was distilled to a fixed schedule; each
    request then has as many steps. Empty: evenly distributed over the steps."""
    step_cache: float = 0.0
    """Relative change of the first block's output up to which a denoising step reuses the output
    of the other blocks from an earlier step; 0: no reuse."""
    guidance: float | None = None
    """Default guidance; None: the model's. FLUX.1 models without guidance ignore it. With at most
    1, Stable Diffusion XL and Wan 2.1 have one pass per step and no request can have more;
    otherwise two."""
    text_tokens: int = 512
    """Tokens of a prompt: 256 for schnell, 512 for dev and Wan 2.1. Stable Diffusion XL always has
    77."""
    text_encoder_bits: int = 16
    """Bits of the long text encoder's weights: 16, or 8, so that all of FLUX.1 fits a v6e. Wan's
    encoder is a long one; Stable Diffusion XL has none."""
    max_batch: int = 4
    """Maximum number of images in a batch."""
    max_candidates: int = 8
    """Maximum number of images per request."""
    queue_limit: int = 64
    """Maximum number of queued images; a request that would exceed it is rejected with 429."""
    max_edit_bytes: int = 0
    """Maximum size of a request that edits images; 0: it is as large as any other."""
    timeout_seconds: float = 300.0
    """Time limit of a request, including queueing."""
    drain_seconds: float = 300.0
    """Time limit for finishing images after SIGTERM."""
    cache_folder: str = ""
    """Folder of XLA's compile cache; empty: no cache."""
    programs_folder: str = ""
    """Folder of programs compiled ahead of time by `python -m diffusion compile`."""
    start_seconds: float = 1800.0
    """Time limit for a worker to load and compile."""

    def __post_init__(self) -> None:
        """Reject invalid settings.

        Raises:
            ValueError: The message has field, rule and value.
        """
        ones = ("workers", "max_batch", "max_candidates", "queue_limit", "fps", "max_adapters")
        low = {**dict.fromkeys(ones, 1), "steps": 0, "max_edit_bytes": 0}
        for name, least in low.items():
            if getattr(self, name) < least:
                raise ValueError(f"{name}: must be at least {least}, got {getattr(self, name)}")
        if self.platform not in ("cpu", "tpu"):
            raise ValueError(f"platform: must be cpu or tpu, got {self.platform!r}")
        if self.text_encoder_bits not in (8, 16):
            bits = self.text_encoder_bits
            raise ValueError(f"text_encoder_bits: must be 8 or 16, got {bits}")
        self._check_schedule()
        if not 1 <= self.live_rank <= RANKS[-1]:
            raise ValueError(f"live_rank: must be from 1 to {RANKS[-1]}, got {self.live_rank}")
        most = RANKS[-1] // self.live_program_rank
        if self.live_adapters and self.max_adapters > most:
            rule = f"must be at most {most} with live adapters of rank {self.live_program_rank}"
            raise ValueError(f"max_adapters: {rule}, got {self.max_adapters}")
        if not self.sizes:
            raise ValueError("sizes: must have at least one, got none")
        if not self.frames or any(count < 1 or count % LATENT_FRAME != 1 for count in self.frames):
            rule = f"must be multiples of {LATENT_FRAME} plus 1, at least one"
            raise ValueError(f"frames: {rule}, got {list(self.frames)}")
        if (self.adapters or self.live_adapters) and self.adapter_slots < 1:
            raise ValueError(f"adapter_slots: must be at least 1, got {self.adapter_slots}")
        names = [self.model]
        for base in self.base_models:
            if base.model in names:
                raise ValueError(f"base_models: must have unique names, got {base.model!r}")
            names.append(base.model)
        for name in names:
            if name in self.adapters:
                raise ValueError(f"adapters: must not have the model's name, got {name!r}")
        self._check_chips()
        _ = self.bases  # each is checked, too

    def _check_chips(self) -> None:
        """Reject chips of models that are not those of the server.

        Raises:
            ValueError: The message has field, rule and value.
        """
        counts = [self.chips, *(base.chips for base in self.base_models)]
        if not any(counts):
            return
        if min(counts) < 1:
            raise ValueError(
                f"chips: must be at least 1 for every model, or 0 for all, got {counts}"
            )
        if sum(counts) != self.workers:
            rule = f"must add up to the {self.workers} of workers over all models"
            raise ValueError(f"chips: {rule}, got {counts}")

    def _check_schedule(self) -> None:
        """Reject an invalid schedule, and settings that conflict with a schedule.

        Raises:
            ValueError: The message has field, rule and value.
        """
        if not 0 <= self.step_cache < 1:
            raise ValueError(f"step_cache: must be at least 0 and below 1, got {self.step_cache:g}")
        if not self.sigmas:
            return
        falls = all(a > b for a, b in pairwise((*self.sigmas, 0.0)))
        if len(self.sigmas) > SAFE_STEPS or not falls or self.sigmas[0] > 1:
            rule = f"must be up to {SAFE_STEPS} strictly decreasing numbers in (0, 1]"
            raise ValueError(f"sigmas: {rule}, got {list(self.sigmas)}")
        if self.steps not in (0, len(self.sigmas)):
            rule = f"must be 0 or the {len(self.sigmas)} of sigmas"
            raise ValueError(f"steps: {rule}, got {self.steps}")
        if self.step_cache:
            rule = "must be 0 when sigmas are set: a distilled schedule has no steps to skip"
            raise ValueError(f"step_cache: {rule}, got {self.step_cache:g}")

    @cached_property
    def bases(self) -> "Mapping[str, Settings]":
        """Return the settings of each model, by name, the first model first.

        Raises:
            ValueError: Those of a further model are invalid.
        """
        found: dict[str, Settings] = {self.model: self}
        for base in self.base_models:
            try:
                found[base.model] = replace(
                    self,
                    adapters={},
                    base_models=(),
                    chips=0,
                    folder=base.folder,
                    live_adapters="",
                    model=base.model,
                    sigmas=base.sigmas,
                    step_cache=0.0 if base.sigmas else self.step_cache,
                    steps=base.steps,
                    text_tokens=base.text_tokens or self.text_tokens,
                )
            except ValueError as error:
                raise ValueError(f"base_models: {base.model}: {error}") from None
        return found

    @cached_property
    def held(self) -> tuple[tuple[str, ...], ...]:
        """Return the names of the models that each process holds, by the number of its chip."""
        if not self.chips:
            return (tuple(self.bases),) * self.workers
        counts = [
            (self.model, self.chips),
            *((each.model, each.chips) for each in self.base_models),
        ]
        return tuple((name,) for name, count in counts for _ in range(count))

    @property
    def batches(self) -> tuple[int, ...]:
        """Batch sizes that programs are compiled for: powers of two, and the largest."""
        powers = [2**n for n in range(self.max_batch.bit_length()) if 2**n < self.max_batch]
        return (*powers, self.max_batch)

    def padded(self, count: int) -> int:
        """Return the smallest compiled batch size for a number of images."""
        return next(batch for batch in self.batches if batch >= count)

    @property
    def live_program_rank(self) -> int:
        """Return the rank that programs of live adapters are compiled for."""
        return next(rank for rank in RANKS if rank >= self.live_rank)

    def combined_rank(self, rank: int) -> int:
        """Return the rank of the program for several adapters of up to `rank` in a request."""
        together = rank * self.max_adapters
        return next((each for each in RANKS if together <= each), RANKS[-1])

    def program_ranks(self, ranks: Iterable[int]) -> list[int]:
        """Return the ranks of programs: those of adapters, of live ones, and of several.

        Args:
            ranks: Ranks of the adapters of the settings.
        """
        found = {*ranks, *((self.live_program_rank,) if self.live_adapters else ())}
        if found and self.max_adapters > 1:
            found.add(self.combined_rank(max(found)))
        return sorted(found)

    @property
    def smallest(self) -> tuple[int, int]:
        """Height and width of the first size, for uses that work with any size."""
        width, height = self.sizes[0]
        return height, width

    @cached_property
    def family(self) -> Family:
        """Return the family of the model, from its files."""
        return family_of(self.folder)

    @property
    def default_steps(self) -> int:
        """Return the default number of steps."""
        return len(self.sigmas) or self.steps or self.family.steps

    @property
    def default_guidance(self) -> float:
        """Return the default guidance."""
        return self.family.guidance if self.guidance is None else self.guidance

    @property
    def is_guided(self) -> bool:
        """Return whether a step has a pass without the prompt, which guidance compares with."""
        return self.family.name in (SDXL, WAN) and self.default_guidance > 1

    @property
    def most_guidance(self) -> float:
        """Return the maximum guidance of a request."""
        has_passes = self.family.name in (SDXL, WAN)
        return 1.0 if has_passes and not self.is_guided else MOST_GUIDANCE

    def check_families(self) -> None:
        """Reject settings that the family of a model cannot have. Reads the models' files.

        Raises:
            ValueError: The message has field, rule and value.
        """
        for name, base in self.bases.items():
            for problem in _unfit(base):
                raise ValueError(problem if base is self else f"base_models: {name}: {problem}")
            if base.family.is_video != self.family.is_video:
                rule = "must all generate videos, or all images"
                raise ValueError(f"base_models: {rule}, got {name} of {base.family.name}")


_NO_STEP_CACHE = {
    SDXL: "a UNet has no first block whose output others reuse",
    WAN: "what its blocks reuse was not measured",
}


def _unfit(settings: Settings) -> Iterator[str]:
    family = settings.family
    if family.name not in _NO_STEP_CACHE:
        return
    if settings.step_cache:
        rule = f"must be 0 for {family.name}: {_NO_STEP_CACHE[family.name]}"
        yield f"step_cache: {rule}, got {settings.step_cache:g}"
    if settings.sigmas:
        where = "the schedule is in the model's scheduler_config.json"
        yield f"sigmas: must be empty for {family.name}: {where}, got {list(settings.sigmas)}"
    if not family.is_video:
        return
    if settings.max_batch != 1:
        rule = f"must be 1 for {family.name}: one video fills a chip"
        yield f"max_batch: {rule}, got {settings.max_batch}"


FLAGS: dict[str, type] = {
    entry.name: kind
    for entry in fields(Settings)
    for kind in (str, int, float)
    if entry.type in (kind, kind.__name__, kind | None)
}
"""Settings with plain values, which are also command-line flags."""


def read(file: Path) -> Settings:
    """Return the settings of a file.

    Raises:
        ValueError: The file is not JSON, or has an invalid key or value.
    """
    given: Any = json.loads(file.read_text())
    return from_dict(given)


def from_dict(given: dict[str, Any]) -> Settings:
    """Return settings from plain JSON.

    Raises:
        ValueError: A key or a value is invalid.
    """
    known = {entry.name for entry in fields(Settings)}
    if unknown := sorted(set(given) - known):
        raise ValueError(f"{unknown[0]}: no such setting")
    for required in ("model", "folder"):
        if not given.get(required):
            raise ValueError(f"{required}: must be set, got nothing")
    sizes = given.get("sizes")
    if sizes is not None:
        given = {**given, "sizes": tuple(parsed_size(size) for size in sizes)}
    if given.get("frames") is not None:
        given = {**given, "frames": _counts("frames", given["frames"])}
    if given.get("sigmas") is not None:
        given = {**given, "sigmas": tuple(float(sigma) for sigma in given["sigmas"])}
    if given.get("base_models") is not None:
        given = {**given, "base_models": tuple(map(_base_model, given["base_models"]))}
    return Settings(**given)


def _base_model(given: Any) -> BaseModel:
    """Return a further model from plain JSON.

    Raises:
        ValueError: A key is invalid.
    """
    where = "base_models"
    if not isinstance(given, dict):
        raise ValueError(f"{where}: must be objects, got {given!r}")
    words: dict[str, Any] = given
    known = {entry.name for entry in fields(BaseModel)}
    if unknown := sorted(set(words) - known):
        raise ValueError(f"{where}.{unknown[0]}: no such setting")
    for required in ("model", "folder"):
        if not words.get(required):
            raise ValueError(f"{where}.{required}: must be set, got nothing")
    for name in ("model", "folder"):
        if not isinstance(words[name], str):
            raise ValueError(f"{where}.{name}: must be a string, got {words[name]!r}")
    for name in ("chips", "steps", "text_tokens"):
        count = words.get(name, 0)
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ValueError(f"{where}.{name}: must be a whole number, at least 0, got {count!r}")
    sigmas = words.get("sigmas") or ()
    if not isinstance(sigmas, (list, tuple)) or not all(map(_is_number, sigmas)):
        raise ValueError(f"{where}.sigmas: must be a list of numbers, got {sigmas!r}")
    words = {**words, "sigmas": tuple(map(float, sigmas))}
    return BaseModel(**words)


def _counts(name: str, given: Any) -> tuple[int, ...]:
    """Return whole numbers of a list, or of one number.

    Raises:
        ValueError: Something else is there.
    """
    found: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given]
    for each in found:
        if not isinstance(each, int) or isinstance(each, bool):
            raise ValueError(f"{name}: must be whole numbers, got {each!r}")
    return tuple(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def parsed_size(text: str, field: str = "sizes") -> tuple[int, int]:
    """Return width and height of `WIDTHxHEIGHT`.

    Raises:
        ValueError: The text has another format.
    """
    width, cross, height = text.partition("x")
    if not cross or not width.isdigit() or not height.isdigit():
        raise ValueError(f"{field}: must be WIDTHxHEIGHT, got {text!r}")
    return int(width), int(height)
