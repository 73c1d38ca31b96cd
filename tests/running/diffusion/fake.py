"""A pipeline without a model: what it draws is a text, when it is done a test says.

A prompt `hold FILE` is drawn until FILE is there; `refuse` is refused, and `die` ends the process.
"""

import json
import os
import time
from pathlib import Path

STEP_SECONDS = 0.01


def load(settings, say):
    say("reading weights")
    return Fake(settings)


def broken(settings, say):
    say("reading weights")
    raise SystemExit(3)


class Fake:
    def __init__(self, settings):
        self._settings = settings

    def warm(self, say):
        say("compiled nothing")

    def facts(self):
        return {"device": "none"}

    def forget(self, adapter):
        Path(self._settings.folder, "forgotten").write_text(adapter)

    def generate(self, batch, is_cancelled, clock):
        self._obey(batch.prompts[0])
        for _ in range(batch.steps):
            with clock("denoise_step"):
                time.sleep(STEP_SECONDS)
            while self._is_held(batch.prompts[0]) and not is_cancelled():
                time.sleep(STEP_SECONDS)
            if is_cancelled():
                Path(self._settings.folder, "given-up").write_text(batch.prompts[0])
                return None
        shared = {
            "batch": len(batch.seeds),
            "adapter": batch.adapter and batch.adapter.name,
            "pid": os.getpid(),
        }
        pairs = zip(batch.prompts, batch.seeds, strict=True)
        return [json.dumps({"prompt": p, "seed": s, **shared}).encode() for p, s in pairs]

    def _obey(self, prompt):
        if prompt == "refuse":
            raise ValueError("adapter: must fit this model")
        if prompt == "die":
            os._exit(9)

    def _is_held(self, prompt):
        return prompt.startswith("hold ") and not Path(prompt.removeprefix("hold ")).exists()
