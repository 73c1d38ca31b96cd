"""A server of WordLlama embeddings with the OpenAI API: `server.py PORT`.

It reads the package's data without its code, which looks for the tokenizer in the wrong place. An
embedding is the mean of the vectors of a text's tokens, normalized to length 1.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any


def main() -> None:
    """Serve until the process ends."""
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise SystemExit("wordllama is not installed")
    folder = Path(spec.origin).parent
    # none of these is in the environment in which this file is type-checked
    numpy: Any = import_module("numpy")
    load_file: Any = import_module("safetensors.numpy").load_file
    tokenizers: Any = import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(
        str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json")
    )
    (vectors,) = load_file(folder / "weights" / "l2_supercat_256.safetensors").values()
    table = vectors.astype(numpy.float32)

    def embedding(text: str) -> list[float]:
        tokens = tokenizer.encode(text, add_special_tokens=False).ids
        mean = table[tokens].mean(axis=0)
        return (mean / numpy.linalg.norm(mean)).tolist()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found = {"data": [{"index": 0, "embedding": embedding(body["input"])}]}
            content = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name
            """Do not log requests."""

    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()


if __name__ == "__main__":
    main()
