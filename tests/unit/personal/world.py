"""A bucket, a cluster, a gateway and a receiver in memory, on one clock."""

import asyncio
import base64
import io
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from workloads.common.bucket import Entry
from workloads.personal.erasure import Eraser
from workloads.personal.front import Front
from workloads.personal.jobs import USER
from workloads.personal.sets import Set, from_bytes, state_of
from workloads.personal.settings import FrontSettings, WorkSettings
from workloads.personal.share import ADAPTER_FILE
from workloads.personal.store import Changed
from workloads.personal.worker import Worker

SECRET = b"of both"


def photo(number: int) -> bytes:
    """Return a photo, a bright square in another corner for each of four numbers."""
    image = Image.new("L", (8, 8))
    left, top = 4 * (number % 2), 4 * (number // 2)
    image.paste(255, (left, top, left + 4, top + 4))
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


PNG = photo(0)
BODY = {
    "callback": "https://app.example.com/done",
    "pictures": [{"type": "image/png", "bytes": 100}] * 3,
    "prompts": ["on a bicycle", "on the moon"],
}
FRONT = FrontSettings(
    bucket="acme-personal",
    callback_hosts=("app.example.com",),
    signer="front@acme.iam.gserviceaccount.com",
    topic="projects/acme/topics/personal",
    erasures_topic="projects/acme/topics/personal-erasures",
)


class Signs:
    """A signer, which shows what it was asked to sign."""

    async def upload(self, name: str, kind: str, size: int, until: float) -> dict[str, Any]:
        return {"url": name, "headers": {"content-type": kind}, "size": size, "until": until}

    async def download(self, name: str) -> str:
        return f"signed:{name}"


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


@dataclass
class World:
    """Everything outside the program. A worker dies at an effect of its choice."""

    shared: Path
    time: float = 1000.0
    files: dict[str, tuple[bytes, int]] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    configmaps: dict[str, dict[str, Any]] = field(default_factory=dict)
    ending: set[str] = field(default_factory=set[str])
    """Jobs whose pods do not end yet."""
    trained: list[str] = field(default_factory=list)
    drawn: list[tuple[str, int]] = field(default_factory=list)
    called: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    published: list[dict[str, str]] = field(default_factory=list)
    erasures: list[dict[str, str]] = field(default_factory=list)
    outcome: str = "Complete"
    answers: list[int] = field(default_factory=list)
    """Statuses of the next callbacks; 200 after them."""
    drawing: int = 200
    die_at: int | None = None
    """The effect at which the process dies: before it if even, after it if odd."""
    effects: int = 0
    _generation: int = 0

    def __post_init__(self) -> None:
        (self.shared / "secret").write_bytes(SECRET)

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)

    def effect(self, act: Callable[[], Any]) -> Any:
        """Do something that others see, or die beside it."""
        if self.die_at is not None and self.effects * 2 >= self.die_at + 1:
            raise Killed
        if self.die_at == self.effects * 2:
            self.effects += 1
            raise Killed
        result = act()
        self.effects += 1
        if self.die_at == self.effects * 2 - 1:
            raise Killed
        return result

    def mark_file(self, adapter: str) -> Path:
        return self.shared / "marks" / "flux" / "live-adapters" / adapter

    def mark(self, adapter: str, age: float = 0.0) -> Path:
        """Note that the folders of a name belong to a set."""
        path = self.mark_file(adapter)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (self.time - age, self.time - age))
        return path

    # the bucket

    async def read(self, name: str) -> tuple[bytes, int] | None:
        return self.files.get(name)

    async def read_range(self, name: str, start: int, end: int) -> bytes:
        return self.files[name][0][start:end]

    async def entries(self, prefix: str) -> list[Entry]:
        found = sorted(name for name in self.files if name.startswith(prefix))
        return [Entry(name, self.files[name][1], len(self.files[name][0]), {}) for name in found]

    async def write(
        self, name: str, content: bytes, *, generation: int | None = None, kind: str = ""
    ) -> int:
        del kind

        def act() -> int:
            there = self.files.get(name)
            if generation is not None and generation != (0 if there is None else there[1]):
                raise Changed
            self._generation += 1
            self.files[name] = (content, self._generation)
            return self._generation

        return self.effect(act)

    async def upload(
        self, name: str, file: Path, metadata: dict[str, str], kind: str = "", /
    ) -> None:
        del metadata
        await self.write(name, file.read_bytes(), generation=0, kind=kind)

    async def delete(self, *what: str) -> None:
        if len(what) == 1:
            self.effect(lambda: self.files.pop(what[0], None))
            return
        kind, name = what
        if not (kind == "jobs" and name in self.ending):
            self.effect(lambda: getattr(self, kind).pop(name, None))

    # the cluster

    async def create(self, kind: str, obj: dict[str, Any]) -> None:
        name = obj["metadata"]["name"]
        if kind == "configmaps":
            self.effect(lambda: self.configmaps.setdefault(name, obj))
        elif name not in self.jobs:
            self.effect(lambda: self._train(name, obj))

    def _train(self, name: str, job: dict[str, Any]) -> None:
        self.jobs[name] = job
        self.trained.append(name)
        if self.outcome == "Complete":
            folder = self.shared / "flux" / "live-adapters" / name.removeprefix("train-")
            folder.mkdir(parents=True, exist_ok=True)
            (folder / ADAPTER_FILE).write_bytes(b"the adapter")
            condition = {"type": "Complete", "status": "True"}
        else:
            condition = {"type": "Failed", "status": "True", "reason": self.outcome}
        job["status"] = {"conditions": [condition]}

    async def get(self, name: str) -> dict[str, Any] | None:
        return self.jobs.get(name)

    async def names(self, kind: str, user: str) -> list[str]:
        found: dict[str, dict[str, Any]] = getattr(self, kind)
        return [name for name, obj in found.items() if obj["metadata"]["labels"].get(USER) == user]

    # the gateway, and the receiver of callbacks

    async def post(self, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        if url.endswith("/v1/images/generations"):
            asked = json.loads(body)
            image = base64.b64encode(f"{asked['prompt']} {asked['seed']}".encode()).decode()
            self.effect(lambda: self.drawn.append((asked["model"], asked["seed"])))
            return self.drawing, json.dumps({"data": [{"b64_json": image}]}).encode()
        self.effect(lambda: self.called.append((headers, body)))
        return (self.answers.pop(0) if self.answers else 200), b""

    # the program

    async def publish(self, data: bytes) -> None:
        self.published.append(json.loads(data))

    async def publish_erasure(self, data: bytes) -> None:
        self.erasures.append(json.loads(data))

    def settings(self, **changes: Any) -> WorkSettings:
        found: dict[str, Any] = {
            "adapters": "flux/live-adapters",
            "bucket": FRONT.bucket,
            "config_map": {"metadata": {"namespace": "jobs-images"}},
            "endpoint": "http://gateway",
            "job": {
                "metadata": {"namespace": "jobs-images"},
                "spec": {"template": {"spec": {"volumes": [{"configMap": {}}, {"csi": {}}]}}},
            },
            "model": "flux",
            "secret_file": str(self.shared / "secret"),
            "shared": str(self.shared),
            "erasures_subscription": "projects/acme/subscriptions/personal-erasures",
            "subscription": "projects/acme/subscriptions/personal",
            "training": {"rank": 4},
        }
        return WorkSettings(**{**found, **changes})

    def worker(self, owner: str, **changes: Any) -> Worker:
        settings = self.settings(**changes)
        return Worker(settings, owner, self, self, self.post, self.now, self.sleep)

    def eraser(self) -> Eraser:
        return Eraser(self.settings(), self, self, self.now, self.sleep)

    def front(self) -> Front:
        return Front(FRONT, self, Signs(), self.publish, self.publish_erasure, self.now)

    def state(self, user: str = "alice", name: str = "one") -> Set:
        return from_bytes(self.files[state_of(user, name)][0])

    def add(self, user: str = "alice", name: str = "one") -> None:
        """Add a set that is ready for a worker."""
        body = {key: BODY[key] for key in ("callback", "prompts")}
        pictures = [{"type": "image/png", "bytes": 100}]
        body["id"] = f"{user}{name}".ljust(32, "0")
        state = {"user": user, "name": name, "pictures": pictures, "stage": "waiting", **body}
        self._generation += 1
        content = json.dumps({**state, "since": self.time, "uploads_until": self.time + 900})
        self.files[state_of(user, name)] = (content.encode(), self._generation)
        self.files[f"users/{user}/{name}/pictures/000.png"] = (PNG, 1)

    def set_stage(self, user: str, name: str, stage: str, seconds: dict[str, float]) -> None:
        """Add a set that is in a stage, after others with a duration."""
        self.add(user, name)
        found = self.state(user, name)
        found.stage, found.seconds = stage, seconds
        self.files[state_of(user, name)] = (found.to_bytes(), self._generation)
