"""How commands start the daemon of a twin."""

import pytest

from scripts.shared import twin_daemon
from scripts.shared.twin_daemon import start_daemon
from twin.host.paths import TwinPaths


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (None, ""),
        (
            "/src/blueprint",
            "Replacing the twin's daemon, which has other code (of /src/blueprint). A command that "
            "still uses it fails; run it again.\n",
        ),
    ],
)
def test_a_command_says_that_it_replaces_a_daemon_with_other_code(
    monkeypatch, capsys, tmp_path, other, said
):
    ports = {"gcp": 1, "kubernetes": 2}
    monkeypatch.setattr(twin_daemon.daemon, "other_code", lambda _: other)
    monkeypatch.setattr(twin_daemon.daemon, "ensure", lambda *_: ports)
    assert start_daemon(TwinPaths(tmp_path)) == ports
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", said)
