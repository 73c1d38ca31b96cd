"""Every alert has a runbook, every runbook an alert, and what a runbook names is there."""

import re
from pathlib import Path

import pytest
import yaml

from gke_inference.observability import dashboard_source
from gke_inference.observability.alert_source import Alert, sources

REPOSITORY = Path(__file__).parents[3]
FOLDER = REPOSITORY / "docs" / "runbooks"
ALERTS = {
    Alert(source["name"], source["severity"], source["lasting"], "", "").runbook: source
    for source in sources()
}
SECTIONS = ["Meaning", "Diagnosis", "Likely causes", "Mitigation", "Rehearse on the twin"]


def test_no_alert_lacks_its_runbook_and_no_runbook_its_alert():
    assert {file.stem for file in FOLDER.glob("*.md")} - {"README"} == set(ALERTS)


@pytest.mark.parametrize("name", sorted(ALERTS))
def test_a_runbook_says_everything_that_is_needed_at_night(name):
    text = (FOLDER / f"{name}.md").read_text()
    assert text.startswith(f"# {ALERTS[name]['name']}\n")
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS
    assert ALERTS[name]["summary"] in text, "the summary in alerts.yaml is another one"
    assert f"*{ALERTS[name]['severity']}, " in text


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.md")), ids=lambda file: file.stem)
def test_links_of_a_runbook_lead_somewhere(file):
    for target in re.findall(r"\]\(([^)#]+)\)", file.read_text()):
        assert (file.parent / target).exists(), target


def titles(value):
    """Return the titles of dashboards, rows and panels."""
    if isinstance(value, list):
        return {title for each in value for title in titles(each)}
    if not isinstance(value, dict):
        return set()
    own = {value["title"]} if "title" in value else set()
    return own.union(*(titles(each) for each in value.values()))


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*-*.md")), ids=lambda file: file.stem)
def test_a_runbook_names_only_panels_that_a_dashboard_has(file):
    folder = Path(dashboard_source.__file__).parent / "data/dashboards"
    known = titles([yaml.safe_load(page.read_text()) for page in folder.glob("*.yaml")])
    prose = re.sub(r"```.*?```", "", file.read_text(), flags=re.S).split("## Meaning")[1]
    assert set(re.findall(r"(?<![*\w])\*([^*\n]+)\*(?!\*)", prose)) <= known


def test_the_index_lists_each_alert_once():
    listed = re.findall(r"^\| \[(\w+)\]", (FOLDER / "README.md").read_text(), re.M)
    assert listed == [source["name"] for source in sources()]
