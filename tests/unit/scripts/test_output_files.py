"""A file that an option names is refused in one line before any work, or else written."""

from pathlib import Path

import pytest

from gke_inference.catalogue.input_error import InputError
from scripts.check import preview
from scripts.operate import ask, trace
from scripts.plan import plan
from scripts.terminal.console import CommandError
from scripts.terminal.output_files import check_folder, check_output, write_output


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """Work in an empty folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is a folder"),
        (
            "../elsewhere/v.json",
            "no such folder: ../elsewhere; only folders below the current one are created",
        ),
        (
            "/no-such-folder/v.json",
            "no such folder: /no-such-folder; only folders below the current one are created",
        ),
        ("file/v.json", "not a directory"),
        ("file/deep/v.json", "file is not a folder"),
        ("/proc/v.json", ""),
    ],
)
def test_what_cannot_be_written_is_one_line_with_the_reason(here, name, reason) -> None:
    (here / "file").write_text("kept")
    with pytest.raises(CommandError) as error:
        check_output("--json", Path(name))
    said = str(error.value)
    assert said.startswith("--json: must be a writable file, got ")
    assert said.lower().endswith(reason)
    assert "\n" not in said
    assert [file.name for file in here.parent.rglob("*")] == ["here", "file"]


def test_a_check_leaves_nothing_and_changes_nothing(here) -> None:
    (here / "kept").write_text("as it was")
    for name in ("kept", "new", "deep/er/new"):
        check_output("--json", Path(name))
    check_output("--json", Path("/dev/stdout"))
    check_output("--json", None)
    assert [(file.name, file.read_text()) for file in here.iterdir()] == [("kept", "as it was")]


def test_a_link_that_points_to_nothing_stays_as_it_was(here) -> None:
    (here / "link").symlink_to("nowhere")
    check_output("--json", Path("link"))
    assert [(file.name, file.is_symlink()) for file in here.iterdir()] == [("link", True)]


def test_folders_are_made_below_the_working_directory(here) -> None:
    write_output("--json", Path("deep/er/new"), lambda file: file.write_text("written"))
    assert (here / "deep" / "er" / "new").read_text() == "written"


def test_what_stops_being_writable_is_one_line_too(here) -> None:
    (here / "file").write_text("")
    with pytest.raises(CommandError, match="--json: must be a writable file"):
        write_output("--json", Path("file/new"), lambda file: file.write_text(""))


def test_a_folder_of_pictures_is_checked_as_a_file_in_it_would_be(here) -> None:
    check_folder("--out", Path("pictures"))
    with pytest.raises(
        CommandError, match=r"^--out: must be a writable folder, got '/no-such-folder': no such"
    ):
        check_folder("--out", Path("/no-such-folder"))
    assert list(here.iterdir()) == []


def test_commands_refuse_it_before_they_do_anything(here, monkeypatch) -> None:
    bad = Path("/no-such-folder/file")
    monkeypatch.setattr(plan, "ranked", lambda *_: pytest.fail("it planned"))
    monkeypatch.setattr(preview, "Engine", lambda *_: pytest.fail("the engine started"))
    monkeypatch.setattr(trace, "read_spans", lambda *_: pytest.fail("it read"))
    monkeypatch.setattr(ask, "endpoint_of", lambda *_: pytest.fail("it asked"))
    for option, run in (
        ("--chart", lambda: plan.plan("llama-3.1-8b", chart=bad)),
        ("--comment", lambda: preview.preview("local", comment=bad)),
        ("--svg", lambda: trace.trace(svg=bad)),
        ("--out", lambda: ask.ask("a cat", image=True, out=bad.parent)),
    ):
        with pytest.raises(CommandError, match=f"^{option}: must be a writable (file|folder)"):
            run()


def test_a_chart_without_a_price_is_one_line(monkeypatch, here) -> None:
    def without(*_: object) -> int:
        raise InputError("chart", "must have a choice with a price", None)

    monkeypatch.setattr(plan, "draw", without)
    with pytest.raises(CommandError, match=r"^--chart: must have a choice with a price"):
        plan.plan("llama-3.2-1b", chart=Path("a.svg"))
