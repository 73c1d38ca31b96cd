"""Make the constraint data again, or check it, against a checkout of Google's provider.

`python -m scripts.develop.provider_data CHECKOUT [--check] [TERRAFORM=TOKEN …]`, where CHECKOUT is
the folder of hashicorp/terraform-provider-google-beta at the commit that `index.json` names. Each
`TERRAFORM=TOKEN`, such as `google_pubsub_topic=gcp:pubsub/topic:Topic`, adds a resource type.
"""

import json
import sys
from pathlib import Path
from typing import Any

from scripts.develop.provider_data.fields import Facts, fields
from scripts.develop.provider_data.golang import GoError
from scripts.develop.provider_data.names import in_pulumi, only_in_sdk
from scripts.develop.provider_data.provider import POLICIES, Provider
from twin.providers.gcp.schema import sdk

DATA = Path(__file__).parents[3] / "twin" / "providers" / "gcp" / "schema" / "data"
PREFIX = "google_"
READ_BY_HAND = {
    "logging_project_sink": "a function builds its schema and adds fields to it one by one",
}
"""Reasons why types cannot be read."""
_OF_THE_BRIDGE = ("pulumi_default", "pulumi_type")
_KEPT = ("autoname", "by_hand", "custom_rules", "deprecated", "delete_before_replace")
"""Facts of Pulumi's bridge and of functions, which the schema does not have. `by_hand` names facts
of fields by path, which functions without a name and expressions contain."""


def made(provider: Provider, terraform: str, token: str, known: dict[str, Any]) -> dict[str, Any]:
    """Return the data of a resource type.

    Args:
        provider: the source.
        terraform: name of the type in Terraform.
        token: its token in Pulumi.
        known: its data so far, for what the schema does not say; empty for a new type.

    Raises:
        GoError: The source is not understood.
    """
    resource = provider.resource(terraform)
    named = in_pulumi(token, dict(fields(resource.source, resource.literal.get("Schema"))))
    for path, facts in named.items():
        before: Facts = known.get("fields", {}).get(path, {})
        kept = (*_OF_THE_BRIDGE, *known.get("by_hand", {}).get(path, ()))
        facts |= {key: before[key] for key in kept if key in before}
        planned = resource.planned(path)
        if planned is not None:
            facts["plan_default"] = planned
        if path == "deletion_policy" and planned is not None:
            facts["known_values"] = list(POLICIES)
    cls = sdk.resource_class(token)
    found: dict[str, Any] = {
        "terraform": terraform,
        "pulumi": token,
        "python": f"{cls.__module__.rpartition('.')[0]}.{cls.__name__}" if cls else "",
        **{key: known[key] for key in _KEPT if key in known},
        **resource.header(),
    }
    if not known and named.get("name", {}).get("pulumi_optional"):
        found["autoname"] = {"field": "name", "max_len": 255, "sep": "-"}
    more = only_in_sdk(token, named)
    if more:
        found["sdk_only"] = more
    lost = [path for path, facts in named.items() if "pulumi" not in facts]
    if lost:
        found["not_in_sdk"] = lost
    return {**found, "fields": named}


def text(data: dict[str, Any]) -> str:
    """Return the data of a resource type as a file with one field a line."""
    head = [f"{_json(key)}:{_json(data[key])}" for key in data if key != "fields"]
    lines = [f"{_json(path)}:{_json(facts)}" for path, facts in data["fields"].items()]
    return "{\n" + ",\n".join(head) + ',\n"fields":{\n' + ",\n".join(lines) + "\n}}\n"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def comparable(data: dict[str, Any]) -> dict[str, Any]:
    """Return data without names of Python, which nothing reads."""
    plain = {
        path: {key: value for key, value in facts.items() if key != "py"}
        for path, facts in data["fields"].items()
    }
    return {**data, "fields": plain}


def main(arguments: list[str]) -> int:
    """Write the data, or with `--check` print the types whose data differ and return 1."""
    is_check = "--check" in arguments
    checkout, *added = [each for each in arguments if each != "--check"]
    provider = Provider.of(Path(checkout))
    index: dict[str, Any] = json.loads((DATA / "index.json").read_text())
    types: dict[str, str] = dict(index["resources"])
    types |= {token: name.removeprefix(PREFIX) for name, token in (a.split("=") for a in added)}
    status = 0
    for token, short in types.items():
        if short in READ_BY_HAND:
            continue
        file = DATA / f"{short}.json"
        known: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        try:
            data = made(provider, str(known.get("terraform", PREFIX + short)), token, known)
        except GoError as error:
            sys.stderr.write(f"{short}: {error}\n")
            status = 1
            continue
        if known and comparable(known) == comparable(data):
            continue
        if is_check:
            sys.stdout.write(f"{short}: differs\n")
            status = 1
        else:
            file.write_text(text(data))
    if not is_check:
        index["resources"] = dict(sorted(types.items()))
        (DATA / "index.json").write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
