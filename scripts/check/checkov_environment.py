"""The Python environment of checkov, a scanner of Kubernetes objects."""

from typing import Final

from policies.benchmark.findings import LOCK, version
from twin.toolchain.python_environments import PythonEnvironment, compile_bytecode

CHECKOV: Final = PythonEnvironment(
    word="checkov",
    title="checkov",
    package="checkov",
    version=version(),
    lock=LOCK,
    disk_gib=1,
    fetching=f"checkov {version()}: 200 MB, a few seconds",
    finish=lambda folder: compile_bytecode(folder, "checkov"),
)
"""checkov with the checks that it contains; it downloads no others."""
