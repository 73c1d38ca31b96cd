from scripts.check.preview import markdown

OUTPUT = """Previewing update (prod):
 +  pulumi:pulumi:Stack gke-inference-prod create
Resources:
    + 312 to create
    ~ 2 to update
    10 unchanged
"""


def test_the_comment_opens_with_the_counts_and_folds_the_rest():
    text = markdown("prod", OUTPUT, succeeded=True)
    first = text.splitlines()[0]
    assert first == "### `prod`: + 312 to create, ~ 2 to update, 10 unchanged"
    assert "<details>" in text
    assert "gke-inference-prod create" in text


def test_a_failed_preview_says_so_in_the_first_line():
    assert markdown("dev", "error: x", succeeded=False).startswith("### `dev`: **failed**")


def test_a_preview_without_changes_says_so():
    assert "no changes" in markdown("dev", "Resources:\n", succeeded=True).splitlines()[0]


def test_a_long_preview_is_cut_in_the_middle_and_says_how_much():
    text = markdown("prod", "\n".join(f"line {n}" for n in range(1000)), succeeded=True)
    assert "… 600 lines …" in text
    assert "line 0\n" in text
    assert "line 999\n" in text
