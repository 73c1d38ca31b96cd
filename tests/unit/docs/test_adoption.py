"""The pages to read before an adoption agree with what they summarize."""

import re

import pytest
import yaml

from gke_inference.catalogue.load_balancing import BACKEND_PORTS
from tests.unit.docs.test_ci_files import options, targets
from twin.host.paths import REPOSITORY

DOCS = REPOSITORY / "docs"
STAGES = {
    "wait in the flex-start queue": "queue.flex-start",
    "GPU node with driver": "node.gpu",
    "TPU node": "node.tpu",
    "image, plain": "image.plain",
    "image, streamed": "image.streamed",
    "pod: mounts, identity, packages": "pod.any",
    "engine until it reads weights": "initialise.any",
    "compilation on GPU, first": "compile.gpu",
    "compilation on GPU, cached": "compile.cached-gpu",
    "compilation on TPU, first": "compile.tpu",
    "compilation on TPU, cached": "compile.cached-tpu",
    "first requests": "warm-up.any",
}
ROW = re.compile(r"^\| ([^|]+) \| ([\d.]+) \((\d+) to (\d+)\) \| (\w+) \|$", re.MULTILINE)
COMMAND = re.compile(r"^\| [^|]+ \| `([^`]+)` \| \[", re.MULTILINE)
ENTRY = re.compile(r"^- (\[?\*\*(.+?)\*\*.*)$", re.MULTILINE)


def test_an_existing_network_is_told_to_open_the_ports_of_the_platform():
    *first, last = BACKEND_PORTS
    assert f"by TCP on {', '.join(first)} and {last}." in (DOCS / "existing.md").read_text()
    program = (DOCS / "examples/existing-network/landing-zone/__main__.py").read_text()
    ports = ", ".join(f'"{each}"' for each in BACKEND_PORTS)
    assert f'"ports": [{ports}]' in program


def test_the_times_of_a_scale_out_are_those_of_the_cold_start():
    data = yaml.safe_load((REPOSITORY / "planner" / "data" / "coldstart.yaml").read_text())
    expected = {}
    for name, path in STAGES.items():
        group, kind = path.split(".")
        stage = data[group][kind]
        seconds, low, high = (f"{stage[key]:g}" for key in ("seconds", "low", "high"))
        expected[name] = (seconds, low, high, stage["confidence"])
    rows = ROW.findall((DOCS / "architecture.md").read_text())
    assert {name: tuple(rest) for name, *rest in rows} == expected


def test_words_of_the_glossary_are_in_order_and_each_leads_to_its_page():
    entries = ENTRY.findall((DOCS / "glossary.md").read_text())
    words = [word.lower() for _, word in entries]
    assert words == sorted(set(words))
    assert len(words) >= 60
    assert [word for text, word in entries if "](" not in text] == []


def shown():
    """Return the commands of the comparison, each a list of the words of its parts."""
    found = COMMAND.findall((DOCS / "comparison.md").read_text())
    return [part.split() for command in found for part in command.split(" && ")]


@pytest.mark.parametrize("words", shown(), ids=" ".join)
def test_a_command_that_shows_a_capability_exists(words):
    program, first = words[:2]
    if program == "cp":
        assert (REPOSITORY / first).is_file()
    elif program == "make":
        assert first in targets()
        for scenario in re.findall(r"SCENARIO=(\S+)", " ".join(words)):
            assert (REPOSITORY / "twin" / "scenarios" / f"{scenario}.yaml").is_file()
    else:
        assert program == "gke-inference"
        assert {word for word in words if word.startswith("--")} <= options(first)


def test_each_capability_of_the_comparison_has_a_command():
    rows = (DOCS / "comparison.md").read_text().split("## Capabilities to try")[1].split("\n\n")
    table = next(text for text in rows if text.startswith("| capability"))
    assert len(COMMAND.findall(table)) == len(table.splitlines()) - 2 >= 10
