"""The page of licenses: what images contain, which licenses are allowed, and the exemptions."""

import re
from collections import Counter
from pathlib import Path

from scripts.release.contents.images import Contents, contents, locked_packages
from scripts.release.contents.policy import Exemption, Policy, policy
from scripts.release.contents.record import Package, Registry, read_record
from twin.host.paths import REPOSITORY

_OPENING = """\
# Licenses of everything shipped

This project is under [Apache-2.0](../LICENSE). The wheels and the plugin archive contain only its
own files and two third-party files: [uPlot](../scripts/observe/vendor/uPlot-LICENSE) (MIT) in
`gke-inference`, and [measured runs](../simulator/engine/data/runs/LICENSE) of LLMServingSim (MIT)
in `gke-inference-simulator`. What they need is installed from PyPI.

The container images contain the packages of their locks. Each has a recorded license, as an SPDX
expression, in [record.txt](../scripts/release/contents/record.txt): the one that the wheel
declares, or that of the license files of a Go module. A test fails if a package has no recorded
license, or one that is not allowed in
[licenses.yaml](../scripts/release/contents/licenses.yaml) and has no exemption with a reason. After
a change of a lock, read the licenses again:

```sh
.venv/bin/python -m scripts.release.contents.read
```

Nobody publishes these images: you build them, and run them in your own clusters. Before you give an
image to others, read the exemptions.
"""
_NOTE = """\
The base of an image is the work of its publisher: its packages are in no lock here, and their
licenses were not checked. [Audit a built image](known-vulnerabilities.md#images), or generate an
SBOM of it, to see them. This page is no legal advice.
"""


def licenses_page(root: Path = REPOSITORY) -> str:
    """Return the page.

    Args:
        root: The repository.
    """
    record, rules = read_record(), policy()
    images = contents(root)
    packages = {target: _packages(root, image, record) for target, image in images.items()}
    counts = Counter(record.values())
    lines = [
        _OPENING,
        "## Exemptions",
        "",
        "| package | license | images | reason |",
        "|---|---|---|---|",
        *(_exemption(each, packages, record) for each in rules.exemptions),
        "",
        "## Images",
        "",
        "| image | locked packages | of them with an exemption | not known |",
        "|---|---|---|---|",
        *(_image(target, images[target], packages[target], record, rules) for target in images),
        "",
        _NOTE,
        "## Number of packages by license",
        "",
        "| license | packages |",
        "|---|---|",
        *(
            f"| `{name}` | {counts[name]} |"
            for name in sorted(counts, key=lambda one: (-counts[one], one))
        ),
    ]
    return "\n".join(lines) + "\n"


def _packages(root: Path, image: Contents, record: dict[Package, str]) -> list[Package]:
    """Return the packages of an image; the modules of Go programs are those of the record."""
    if image.program is not None:
        return [each for each in record if each.registry is Registry.GO]
    return [] if image.lock is None else locked_packages(root / image.lock)


def _exempt(packages: list[Package], record: dict[Package, str], rule: Exemption) -> bool:
    return any(rule.covers(each.name, record[each]) for each in packages)


def _exemption(
    rule: Exemption, packages: dict[str, list[Package]], record: dict[Package, str]
) -> str:
    used = [target for target, each in packages.items() if _exempt(each, record, rule)]
    return f"| `{rule.name}` | `{rule.license}` | {', '.join(used)} | {rule.reason} |"


def _image(
    target: str, image: Contents, packages: list[Package], record: dict[Package, str], rules: Policy
) -> str:
    exempt = [each.name for each in rules.exemptions if _exempt(packages, record, each)]
    listed = ", ".join(f"`{each}`" for each in exempt) or "none"
    unknown = re.sub(r"@sha256:\w+", "", " ".join(image.unknown))
    count = f"up to {len(packages)} Go modules" if image.program else str(len(packages))
    return f"| `{target}` | {count} | {listed} | {unknown} |"
