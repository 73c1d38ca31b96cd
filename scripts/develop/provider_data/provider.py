"""Resource types of a checkout of Google's provider."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.develop.provider_data.fields import Source, named
from scripts.develop.provider_data.golang import (
    Call,
    Composite,
    GoError,
    Name,
    Package,
    expression,
    scan,
)

_REGISTERED = re.compile(
    r'Name:\s+"(?P<name>google_\w+)",\s+ProductName:[^\n]*\s+'
    r"Type:\s+registry\.SchemaType(?:IAM)?Resource,\s+Schema:\s+(?P<call>[^\n]+),\n"
)
_SHARED = ("tpgiamresource", "tpgresource", "verify")
_DURATION = re.compile(r"(?P<number>\d+)\*time\.(?P<unit>Minute|Hour|Second)")
_PLANNED = {
    "project": "tpgresource.DefaultProviderProject",
    "region": "tpgresource.DefaultProviderRegion",
    "zone": "tpgresource.DefaultProviderZone",
}
_DELETION = "tpgresource.DefaultProviderDeletionPolicy"
POLICIES = ("DELETE", "ABANDON", "PREVENT")


@dataclass(frozen=True)
class ResourceType:
    """The literal of a `schema.Resource`, and where its names are looked up."""

    source: Source
    literal: Composite

    def differences(self) -> list[Any]:
        """Return the functions that change a plan (`CustomizeDiff`)."""
        found = self.literal.get("CustomizeDiff")
        is_list = isinstance(found, Call) and found.name.rpartition(".")[2] in ("All", "Sequence")
        return list(found.arguments) if is_list else [] if found is None else [found]

    def planned(self, path: str) -> str | None:
        """Return the value of a property that a plan fills in if it is not given."""
        names = {
            each.text if isinstance(each, Name) else each.name: each
            for each in self.differences()
            if isinstance(each, Name | Call)
        }
        deletion = names.get(_DELETION)
        if path == "deletion_policy" and isinstance(deletion, Call):
            return str(deletion.arguments[0])
        return f"<provider {path}>" if _PLANNED.get(path) in names else None

    def header(self) -> dict[str, Any]:
        """Return the facts of the type itself."""
        found: dict[str, Any] = {}
        version = self.source.value(self.literal.get("SchemaVersion"))
        if version:
            found["schema_version"] = version
        if self.literal.get("Update") is None and self.literal.get("UpdateContext") is None:
            found["no_update"] = True
        names = [named(each) for each in self.differences()]
        if names:
            found["customize_diff"] = names
        times = self._timeouts()
        if times:
            found["timeouts"] = times
        return found

    def _timeouts(self) -> dict[str, str]:
        times = self.literal.get("Timeouts")
        items = times.items if isinstance(times, Composite) else ()
        found: dict[str, str] = {}
        for key, call in items:
            match = _DURATION.search(str(call.arguments[0].text).replace(" ", ""))
            if match is not None:
                found[key.text.lower()] = match["number"] + match["unit"][0].lower()
        return dict(sorted(found.items()))


@dataclass(frozen=True)
class Provider:
    """A checkout, whose packages are read when a type of theirs is asked for."""

    registered: dict[str, tuple[Path, str]]
    """Folder and expression of each type, by its name in Terraform."""
    shared: dict[str, Package]
    packages: dict[Path, Package] = field(default_factory=dict[Path, Package])

    @classmethod
    def of(cls, checkout: Path) -> "Provider":
        """Return the provider in a checkout."""
        root = checkout / "google-beta"
        registered = {
            match["name"]: (file.parent, match["call"])
            for file in sorted(root.glob("services/*/*.go"))
            for match in _REGISTERED.finditer(file.read_text())
        }
        return cls(registered, {name: package(root / name) for name in _SHARED})

    def resource(self, terraform: str) -> ResourceType:
        """Return a resource type.

        Raises:
            GoError: It does not exist, or its source is not understood.
        """
        if terraform not in self.registered:
            raise GoError(f"{terraform} is not a resource type of the provider")
        folder, call = self.registered[terraform]
        if folder not in self.packages:
            self.packages[folder] = package(folder)
        source = Source(self.packages[folder], self.shared)
        literal = source.value(expression(scan(call)))
        if not isinstance(literal, Composite):
            raise GoError(f"{terraform} is not a literal")
        return ResourceType(source, literal)


def package(folder: Path) -> Package:
    """Return the declarations of a folder's files, without its tests."""
    found = Package()
    for file in sorted(folder.glob("*.go")):
        if not file.name.endswith("_test.go"):
            found.add(file.read_text())
    return found
