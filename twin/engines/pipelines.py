"""The Python environment of the pipelines, whose libraries are those of the image `pipelines`."""

from typing import Final

from twin.host.paths import REPOSITORY
from twin.toolchain.python_environments import PythonEnvironment, compile_bytecode

PIPELINES: Final = PythonEnvironment(
    word="pipelines",
    title="Apache Beam",
    package="pipelines",
    version="2.77.0",
    lock=REPOSITORY / "workloads" / "images" / "pipelines" / "requirements.lock",
    disk_gib=3,
    fetching="apache-beam 2.77.0 with its clients of Google Cloud: 800 MB, half a minute",
    finish=lambda folder: compile_bytecode(folder, "apache_beam", "google"),
)
"""Apache Beam with the DirectRunner, which runs a pipeline on this machine."""
