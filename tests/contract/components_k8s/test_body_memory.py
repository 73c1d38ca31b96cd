"""The limits of bodies follow from the memory of the containers that hold them."""

import re
from pathlib import Path

import pytest

from gke_inference.backends.relay import relay_pod
from gke_inference.catalogue.load_balancing import MAX_BODY_BYTES
from gke_inference.clients.callout import callout_objects
from gke_inference.gateway import body_memory
from gke_inference.gateway.router import router_objects

ROOT = Path(__file__).parents[3]
RUNBOOKS = ROOT / "docs" / "runbooks"
GATEWAY = ROOT / "workloads" / "gateway"
MIB = 1 << 20
LARGEST_CHECKED_ANSWER = 16 * MIB
"""`maxCheckedBytes` of the callout."""
FREE, TRANSPORT = 64 << 10, 64 << 10
BASE = 32 * MIB


def router():
    found = [obj for obj in router_objects("r", "models", 2, 2) if obj["kind"] == "Deployment"]
    return found[0]["spec"]["template"]["spec"]["containers"][0]


def gate():
    deployment = callout_objects("g", "models", "a", 2, 2, "{}")["deployment"]
    return deployment["spec"]["template"]["spec"]["containers"][0]


def relay():
    return relay_pod("r", "a", "s", 600, has_token=False)["containers"][0]


PROGRAMS = {
    "router": (router, body_memory.ROUTER),
    "gate": (gate, body_memory.CLIENT_GATE),
    "relay": (relay, body_memory.RELAY),
}


def flags(container) -> dict[str, int]:
    found = (re.fullmatch(r"--(max-[a-z-]+)=(\d+)", one) for one in container["args"])
    return {match[1]: int(match[2]) for match in found if match}


@pytest.mark.parametrize("program", PROGRAMS)
def test_bodies_and_their_copies_fit_into_the_memory_of_the_container(program):
    container, memory = PROGRAMS[program][0](), PROGRAMS[program][1]
    limits = flags(container)
    limit = int(container["resources"]["limits"]["memory"].removesuffix("Mi")) * MIB
    heap = int(container["env"][0]["value"].removesuffix("MiB")) * MIB
    small = limits["max-bodies"] * (FREE * (1 + memory.copies) + TRANSPORT)
    assert container["env"][0]["name"] == "GOMEMLIMIT"
    assert heap <= 0.8 * limit
    assert BASE + small + limits["max-held-bytes"] <= 0.8 * heap + MIB
    assert limits["max-body-bytes"] == MAX_BODY_BYTES


COPIES = {
    "gate": ("callout/internal/extproc/guards.go", "callout/internal/extproc/cached.go"),
    "relay": ("relay/internal/relay/bodies.go",),
}


@pytest.mark.parametrize("program", COPIES)
def test_memory_is_kept_for_the_copies_that_the_program_counts(program):
    counted = [
        int(number)
        for file in COPIES[program]
        for number in re.findall(r"\w+Copies\s*= (\d+)", (GATEWAY / file).read_text())
    ]
    assert max(counted) == PROGRAMS[program][1].copies


@pytest.mark.parametrize("program", PROGRAMS)
def test_one_client_has_room_for_a_body_of_the_largest_size_but_not_for_all(program):
    container, memory = PROGRAMS[program][0](), PROGRAMS[program][1]
    limits = flags(container)
    assert limits["max-held-bytes-per-client"] >= (1 + memory.copies) * MAX_BODY_BYTES
    assert limits["max-held-bytes-per-client"] <= limits["max-held-bytes"] / 2
    assert limits["max-bodies-per-client"] <= limits["max-bodies"] / 2


def test_the_gate_has_room_for_the_longest_answer_that_a_guard_checks():
    memory = body_memory.CLIENT_GATE
    assert memory.held_mib_of_one * MIB >= (1 + memory.copies) * LARGEST_CHECKED_ANSWER


@pytest.mark.parametrize(
    ("program", "page"),
    [
        ("router", "body-router-overloaded"),
        ("gate", "client-gate-overloaded"),
        ("relay", "relay-overloaded"),
    ],
)
def test_the_runbook_has_the_limits(program, page):
    memory = PROGRAMS[program][1]
    text = (RUNBOOKS / f"{page}.md").read_text()
    assert re.search(
        rf"at most {memory.bodies} [a-z ]*\({memory.bodies_of_one} (of|from) one ", text
    )
    assert f"they may take {memory.held_mib} MiB of memory ({memory.held_mib_of_one} MiB " in text
