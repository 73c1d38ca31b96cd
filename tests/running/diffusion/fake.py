"""A pipeline without a model: what it draws is a text, when it is done a test says.

A prompt `hold FILE` is drawn until FILE is there, `hold-from-step-3 FILE` from that step on, and
`hold-seed-8 FILE` only with that seed. `refuse` is refused, and `die` ends the process;
`die-at-step-3` after two steps, and `die-at-seed-8` only with that seed. A model `broken` cannot be
loaded, and one of the name `held` is not before its folder has a file `gate`.
"""

import hashlib
import json
import os
import time
from pathlib import Path

STEP_SECONDS = 0.01


def load(settings, say):
    say("reading weights")
    if settings.model == "broken":
        raise SystemExit(3)
    while settings.model == "held" and not Path(settings.folder, "gate").exists():
        time.sleep(STEP_SECONDS)
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

    def generate(self, batch, is_cancelled, clock, show):
        self._obey(batch.prompts[0], batch.seeds)
        Path(self._settings.folder, f"drawing-{batch.seeds[0]}").write_text(str(os.getpid()))
        previews = batch.preview_steps
        for number in range(1, batch.steps + 1):
            with clock("denoise_step"):
                time.sleep(STEP_SECONDS)
            if number == 3 and batch.prompts[0] == "die-at-step-3":
                os._exit(9)
            while self._is_held(batch, number) and not is_cancelled():
                time.sleep(STEP_SECONDS)
            if is_cancelled():
                Path(self._settings.folder, "given-up").write_text(batch.prompts[0])
                return None
            if number in previews:
                show(previews.index(number), [f"step {number}".encode() for _ in batch.seeds])
        shared = {
            "batch": len(batch.seeds),
            "folder": self._settings.folder,
            "adapters": {each.adapter.name: each.weight for each in batch.adapters},
            "frames": batch.frames,
            "negative": batch.negative,
            **(
                {"edit": hashlib.sha256(batch.edit.image.encode()).hexdigest()}
                if batch.edit
                else {}
            ),
            "pid": os.getpid(),
        }
        pairs = zip(batch.prompts, batch.seeds, strict=True)
        return [json.dumps({"prompt": p, "seed": s, **shared}).encode() for p, s in pairs]

    def _obey(self, prompt, seeds):
        if prompt == "refuse":
            raise ValueError("adapter: must fit this model")
        if prompt == "die" or (prompt == "die-at-seed-8" and 8 in seeds):
            os._exit(9)

    def _is_held(self, batch, number):
        word, _, gate = batch.prompts[0].partition(" ")
        holds = {
            "hold": True,
            "hold-from-step-3": number >= 3,
            "hold-seed-8": 8 in batch.seeds,
        }
        return holds.get(word, False) and not Path(gate).exists()
