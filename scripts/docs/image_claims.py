"""The figures for published claims about image generation, in docs/image-claims.md."""

from planner.unit_cost.image_claims import figures
from twin.host.paths import REPOSITORY

START = "<!-- claims: made by `make docs` from planner/unit_cost/image_claims.py -->"
END = "<!-- end of claims -->"
_HOLDS = {None: "with these chips", False: "no", True: "yes"}


def image_claims_page() -> str:
    """Return docs/image-claims.md with an updated table of claims.

    Raises:
        ValueError: the markers of the table are missing.
    """
    text = (REPOSITORY / "docs" / "image-claims.md").read_text()
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise ValueError(f"docs/image-claims.md: must contain {START!r} and {END!r}")
    return f"{before}{START}\n\n{claims_table()}\n{END}{after}"


def claims_table() -> str:
    """Return the figures as a table; a cell that repeats the one above is empty."""
    lines = ["| claim | requires | figure | value | holds |", "|---|---|---|---|---|"]
    last = ("", "")
    for each in figures():
        claim = "" if each.claim == last[0] else each.claim
        required = "" if (each.claim, each.required) == last else each.required
        cells = [claim, required, each.figure, each.value, _HOLDS[each.holds]]
        lines.append(f"| {' | '.join(cells)} |")
        last = each.claim, each.required
    return "\n".join(lines) + "\n"
