"""A program for a Cloud Run service: answers with its variables, or ends at once."""

import http.server
import json
import os
import sys
from typing import Any


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        names = ("CALLER", "COLOR", "K_CONFIGURATION", "K_REVISION", "K_SERVICE", "PORT")
        content = json.dumps({name: os.environ.get(name) for name in names}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        del format, args


if __name__ == "__main__":
    if sys.argv[1:] == ["fail"]:
        sys.exit("no settings")
    address = os.environ["POD_IP"], int(os.environ["PORT"])
    http.server.ThreadingHTTPServer(address, _Handler).serve_forever()
