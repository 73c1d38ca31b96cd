"""The tests of `tests/with_jax/`, which need JAX, in a process that has it."""

import subprocess
import sys
from pathlib import Path

import pytest

from twin.host.paths import REPOSITORY
from twin.toolchain.python_environments import XLA, xla_environment

pytestmark = [pytest.mark.needs_tools, pytest.mark.needs_xla, pytest.mark.timeout(900)]
_INSIDE = REPOSITORY / "tests" / "with_jax"


@pytest.mark.parametrize("length", ["short", pytest.param("full", marks=pytest.mark.soak)])
def test_what_needs_jax_passes_where_jax_is(length: str) -> None:
    """The full length has more examples of each property, and both generations of TPUs."""
    argv = [XLA.python(), "-m", "pytest", "-q", "-p", "no:cacheprovider", str(_INSIDE)]
    environment = xla_environment({"TEST_LENGTH": length})
    answer = subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment
    )
    assert answer.returncode == 0, answer.stdout[-6000:] + answer.stderr[-2000:]


def test_the_kernels_are_type_checked_with_jax_there() -> None:
    """`make lint` leaves them out: the checkout's environment has no JAX."""
    checker = str(Path(sys.executable).with_name("pyrefly"))
    settings = "workloads/kernels/pyrefly.toml"
    answer = subprocess.run(
        [checker, "check", "-c", settings, "--python-interpreter-path", str(XLA.python())],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    assert answer.returncode == 0, answer.stdout[-4000:]
