"""A program that behaves like `vllm serve` as far as a launcher can see; FAKE_* say how."""

import ctypes
import json
import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

OPEN = {"count": 0}
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of linux/prctl.h
ADDRESS = os.environ.get("POD_IP", "127.0.0.1")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/metrics":
            text = f'vllm:num_requests_running{{model_name="m"}} {float(OPEN["count"])}\n'
            text += 'vllm:num_requests_waiting{model_name="m"} 0.0\n'
            self.answer(text.encode())
        elif self.path == "/stream":
            OPEN["count"] += 1
            self.send_response(200)
            self.end_headers()
            try:
                while not os.path.exists(os.environ["FAKE_FINISH"]):
                    self.wfile.write(b"data: token\n")
                    self.wfile.flush()
                    time.sleep(0.02)
                self.wfile.write(b"data: [DONE]\n")
            finally:
                OPEN["count"] -= 1
        else:
            self.answer(b"ok")

    def answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    # In a container the kernel ends an engine with its launcher; here a test may leave it behind.
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    out = os.environ.get("FAKE_ARGUMENTS")
    if out:
        with open(out, "w") as file:
            json.dump({"argv": sys.argv[1:], "environment": dict(os.environ)}, file)
    if "FAKE_CRASH" in os.environ:
        say("ERROR 11-21 12:00:00 [core.py:1] no memory left")
        say("Traceback: the last words")
        sys.exit(int(os.environ["FAKE_CRASH"]))
    if "FAKE_DEAF" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    say("INFO 11-21 12:00:00 [model.py:1] Starting to load model m")
    while "FAKE_HOLD" in os.environ and not os.path.exists(os.environ["FAKE_HOLD"]):
        time.sleep(0.02)
    say("INFO 11-21 12:00:01 [backends.py:1] Start compiling function")
    say("\rloading 1%\rloading 100%")
    port = int(next(word for word in sys.argv if word.startswith("--port=")).split("=")[1])
    server = ThreadingHTTPServer((ADDRESS, port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    if "FAKE_DIE" in os.environ:
        while not os.path.exists(os.environ["FAKE_DIE"]):
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGSEGV)
    while True:
        signal.pause()


main()
