"""A small real embedding model: 16 MB of word vectors in a package.

Only the measurements of the response cache need it.
"""

from pathlib import Path

from twin.toolchain.python_environments import PythonEnvironment, compile_bytecode

WORDLLAMA = PythonEnvironment(
    word="embeddings",
    title="the model of embeddings",
    package="wordllama",
    version="0.4.0.post1",
    lock=Path(__file__).parent / "requirements.lock",
    disk_gib=1,
    fetching="wordllama 0.4.0: 100 MB, some seconds",
    finish=lambda folder: compile_bytecode(folder, "numpy", "tokenizers"),
)
SERVER = Path(__file__).parent / "server.py"
"""Program for its interpreter: `SERVER PORT` serves `/v1/embeddings` on 127.0.0.1."""
