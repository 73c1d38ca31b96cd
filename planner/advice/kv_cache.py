"""Size of the tiers of KV cache below the accelerator's memory, and whether each is of use."""

import math
from dataclasses import dataclass

from gke_inference.catalogue.accelerators import accelerator as offered
from gke_inference.catalogue.engines import engine as engine_facts
from gke_inference.catalogue.files.filestore import TIERS
from gke_inference.catalogue.files.lustre import SIZES
from gke_inference.catalogue.files.sizes import Sizes
from gke_inference.intent.kv_offload import LOCAL_SSD_GIB, SHARED_SHARE
from gke_inference.sizing.memory import kv_cache_gib, kv_token_bytes
from planner.choice.plan import Choice
from planner.choice.question import Question
from planner.speed.kv_tiers import (
    disk_bytes_per_second,
    disks_of,
    link_bytes_per_second,
    lustre_bytes_per_second,
    network_bytes_per_second,
    share_bytes_per_second,
)
from planner.unit_cost.prompt_speed import prompts

_FOR_KV = 0.5
"""Largest share of a machine's memory for KV cache; the rest is for the engine and the system.
Assumed."""
_LUSTRE_TIER = 1000
"""Performance tier of Managed Lustre with the smallest instance, in MB/s per TiB."""


@dataclass(frozen=True)
class Tier:
    """One tier, sized for a replica, or for all replicas where it is shared."""

    name: str
    """Field of `kv_offload` with its value, if it has a word: `cpu_gib`, `disk_gib`, or
    `shared.place: filestore` or `lustre`."""
    gib: int
    bytes_per_second: float
    """Upper limit of its speed for one replica."""
    problem: str | None
    """Why the tier is of no use, or None."""


@dataclass(frozen=True)
class KvAdvice:
    """Where to keep the KV cache of conversations that come back."""

    conversation_gib: float
    """KV cache of one conversation."""
    replica_gib: float
    """KV cache of all conversations of one replica."""
    accelerator_gib: float
    """Room in the accelerators of a replica beside the running requests."""
    tiers: tuple[Tier, ...]
    """Empty if the accelerators hold everything, or the engine has no tiers there."""
    reason: str

    @property
    def useful(self) -> Tier | None:
        """First tier that is of use."""
        return next((tier for tier in self.tiers if tier.problem is None), None)


def kv_advice(question: Question, choice: Choice, conversations: int) -> KvAdvice:
    """Return the tiers for conversations whose prompts come back.

    Args:
        question: Question of the plan; a conversation has the length of its prompts.
        choice: Hardware.
        conversations: Conversations whose prompts shall stay available, over all replicas.
    """
    one, form = choice.candidate, choice.candidate.form
    devices = form.devices * form.stages
    each = kv_cache_gib(
        question.given, one.shape, tensor=form.split, stages=form.stages, bits=one.kv_bits
    )
    running = choice.batch * each * (1 + question.made / 2 / question.given)
    room = max(0.0, one.room.left - running) * devices * form.copies
    whole = each * devices * conversations / choice.replicas
    found = prompts(question, one)
    per_token = kv_token_bytes(one.shape, one.kv_bits)
    computed = found.rate * form.copies * question.given * per_token
    able = engine_facts(question.engine).abilities(form.chip.kind, form.word)
    tiers: tuple[Tier, ...] = ()
    if whole <= room:
        reason = "the accelerators hold them"
    elif able is None or not able.kv_offload:
        reason = f"{question.engine} has no tiers on {form.word}"
    else:
        tiers = _tiers(choice, whole, computed)
        useful = [tier.name for tier in tiers if tier.problem is None]
        reason = f"kv_offload.{useful[0]} is enough" if useful else "no tier is of use"
    return KvAdvice(each * devices, whole, room, tiers, reason)


def _tiers(choice: Choice, gib: float, computed: float) -> tuple[Tier, ...]:
    form = choice.candidate.form
    size = math.ceil(gib)
    chip = offered(form.word)
    machine = next((one for one in chip.machines if one.name == form.machine_type), None)
    memory = machine.ram_gib if machine is not None else None
    disks = disks_of(form.chip.name, form.count)
    link = link_bytes_per_second(form.chip.name, form.count)
    whole = math.ceil(gib * choice.replicas)
    return (
        Tier("cpu_gib", size, link, _of_memory(size, memory) or _slow(link, computed)),
        Tier(
            "disk_gib",
            size,
            disk_bytes_per_second(disks),
            _of_disks(size, disks) or _slow(disk_bytes_per_second(disks), computed),
        ),
        _shared("filestore", TIERS["zonal"].sizes, choice, whole, computed),
        _shared("lustre", SIZES[_LUSTRE_TIER], choice, whole, computed),
    )


def _shared(place: str, sizes: Sizes, choice: Choice, gib: int, computed: float) -> Tier:
    """Return a tier on the smallest instance that holds it, which all replicas read together."""
    name, form = f"shared.place: {place}", choice.candidate.form
    instance = sizes.smallest(gib / SHARED_SHARE)
    if instance is None:
        return Tier(name, gib, 0.0, f"no instance has {gib / SHARED_SHARE:.0f} GiB")
    if place == "lustre":
        rate = lustre_bytes_per_second(_LUSTRE_TIER, instance)
    else:
        rate = share_bytes_per_second("zonal", instance)
    network = network_bytes_per_second(form.machine_type) * form.hosts
    rate = min(network, rate / choice.replicas)
    return Tier(name, gib, rate, _slow(rate, computed))


def _of_memory(size: int, memory: int | None) -> str | None:
    if memory is None:
        return "the memory of the machine is not known"
    most = int(memory * _FOR_KV)
    return f"the machine has {most} GiB to spare" if size > most else None


def _of_disks(size: int, disks: int) -> str | None:
    if not disks:
        return "the machine has no local SSD of its own"
    return (
        f"its local SSDs have {disks * LOCAL_SSD_GIB} GiB" if size > disks * LOCAL_SSD_GIB else None
    )


def _slow(reads: float, computed: float) -> str | None:
    if reads > computed:
        return None
    return f"reads {reads / 1e9:.1f} GB/s, computing makes {computed / 1e9:.1f} GB/s"
