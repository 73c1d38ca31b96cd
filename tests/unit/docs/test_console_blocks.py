"""Console blocks of a page: what counts as printed, and what does not."""

import pytest

from tests.platform.tutorial.console import commands, unlike


def test_commands_have_their_lines_under_them():
    found = commands("```sh\n$ no\n```\n\n```console\n$ a \\\n    b\nshown\n$ c\n```\n")
    assert [(each.line, each.shown) for each in found] == [("a  b", ["shown"]), ("c", [])]


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["one", "two"], "one\ntwo\n"),
        (["…", "two"], "one\ntwo\n"),
        (["one", "…"], "one\ntwo\n"),
        (["one", "…", "three"], "one\ntwo\n\nthree\n"),
        (["took … s"], "took   1.5  s\n"),
    ],
)
def test_what_is_printed_is_found(shown, printed):
    assert unlike(shown, printed) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        (["two"], "one\ntwo\n"),
        (["one"], "one\ntwo\n"),
        (["two", "…", "one"], "one\ntwo\n"),
        (["one", "three"], "one\ntwo\nthree\n"),
        (["…", "four", "…"], "one\n"),
        (["took … s"], "took 1.5 min\n"),
        (["a.c"], "abc\n"),
        (["one"], ""),
    ],
)
def test_what_is_not_printed_or_not_shown_is_unlike(shown, printed):
    assert unlike(shown, printed) != ""
