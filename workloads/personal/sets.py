"""A set: the pictures of one subject, what its user asked for, and how far it is."""

import json
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Final, cast
from urllib.parse import urlsplit

from .settings import FrontSettings

NAME: Final = re.compile(r"[a-z0-9]{1,19}")
"""A user or a set. Both and a hyphen are the adapter's name, of at most 40 characters."""
TYPES: Final = {"image/jpeg": "jpg", "image/png": "png", "image/webp": "webp"}
STAGES: Final = ("uploading", "waiting", "training", "drawing", "archiving", "calling")
ENDED: Final = ("done", "failed")
_LONGEST_PROMPT: Final = 1000
_URL: Final = re.compile(r"[!-~]{1,2000}")
_SHOWN: Final = 60


class Refused(Exception):
    """A request that cannot be granted: its status, and one sentence with field, rule and value."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unreadable(ValueError):
    """A state in the bucket is not one of a set."""


@dataclass(frozen=True)
class Picture:
    """A picture that the user announces."""

    type: str
    bytes: int


@dataclass
class Set:
    """A set of pictures, as it is in the bucket."""

    user: str
    name: str
    pictures: list[Picture]
    prompts: list[str]
    """One per image."""
    callback: str
    id: str = ""
    """Identifier of this set, which no other set has, even a later one of the same name."""
    stage: str = "uploading"
    uploads_until: float = 0.0
    """When the last URL for an upload expires."""
    since: float = 0.0
    """When the stage began."""
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    """Duration of each finished stage."""
    copies: dict[str, int] = field(default_factory=dict[str, int])
    """Picture that each further picture looks like, both by number."""
    error: str = ""
    called: str = ""
    """`delivered`, or why the callback was not."""
    tries: int = 0
    owner: str = ""
    """Attempt of a worker that has the set, until `lease_until`."""
    lease_until: float = 0.0
    write: str = ""
    """Identifier of the last write, by which its author knows it again."""

    @property
    def adapter(self) -> str:
        """Name of the adapter in requests."""
        return f"{self.user}-{self.name}"

    @property
    def folder(self) -> str:
        """Prefix of all its objects."""
        return folder_of(self.user, self.name)

    def picture(self, number: int) -> str:
        """Return the object of a picture."""
        return f"{self.folder}pictures/{number:03d}.{TYPES[self.pictures[number].type]}"

    def result(self, number: int) -> str:
        """Return the object of an image."""
        return f"{self.folder}results/{number:03d}.png"

    @property
    def archived_adapter(self) -> str:
        """Object of the adapter."""
        return f"{self.folder}results/adapter.safetensors"

    @property
    def was_trained(self) -> bool:
        """Whether a worker has begun to train the set."""
        return self.stage == "training" or "training" in self.seconds

    def enter(self, stage: str, now: float) -> None:
        """Begin a stage, and note how long the last one took."""
        if self.since:
            self.seconds[self.stage] = round(now - self.since, 3)
        self.stage, self.since = stage, now

    def to_bytes(self) -> bytes:
        """Return the object."""
        given = asdict(self)
        if not self.copies:
            del given["copies"]  # workers of earlier releases do not know it
        return json.dumps(given).encode()


def folder_of(user: str, name: str = "") -> str:
    """Return the prefix of the objects of a user, or of one of their sets."""
    return f"users/{user}/" + (f"{name}/" if name else "")


def state_of(user: str, name: str) -> str:
    """Return the object of a set's state."""
    return f"{folder_of(user, name)}state.json"


def set_of(adapter: str) -> tuple[str, str] | None:
    """Return user and set of an adapter's name; None for a name that no set has."""
    user, _, name = adapter.partition("-")
    return (user, name) if NAME.fullmatch(user) and NAME.fullmatch(name) else None


def tombstone_of(user: str) -> str:
    """Return the object that says that a user's data is being deleted."""
    return f"erasing/{user}.json"


def from_bytes(content: bytes) -> Set:
    """Return the set of an object.

    Raises:
        Unreadable: The object has no set.
    """
    try:
        found = json.loads(content)
        found["pictures"] = [Picture(**each) for each in found["pictures"]]
        return Set(**found)
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise Unreadable(type(error).__name__) from None  # its text may have a user's name


def checked_name(what: str, value: str) -> str:
    """Return the name of a user or set.

    Raises:
        Refused: It is not one.
    """
    if not NAME.fullmatch(value):
        rule = "must be 1 to 19 lowercase letters and digits"
        raise Refused(400, f"{what}: {rule}, got {_shown(value)}")
    return value


def asked(user: str, name: str, body: Any, settings: FrontSettings) -> Set:
    """Return the set that a request announces.

    Raises:
        Refused: A field is missing, unknown or not allowed.
    """
    if not isinstance(body, dict):
        raise Refused(400, f"body: must be a JSON object, got {type(body).__name__}")
    given = cast("dict[str, Any]", body)
    for key in given:
        if key not in ("pictures", "prompts", "callback"):
            raise Refused(400, f"{key[:60]}: must be one of callback, pictures, prompts")
    return Set(
        user=checked_name("user", user),
        name=checked_name("set", name),
        pictures=_pictures(given.get("pictures"), settings),
        prompts=_prompts(given.get("prompts"), settings.max_images),
        callback=_callback(given.get("callback"), settings.callback_hosts),
    )


def _pictures(value: Any, settings: FrontSettings) -> list[Picture]:
    least, most = settings.min_photos, settings.max_photos
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    if not least <= len(listed) <= most:
        raise Refused(400, f"pictures: must be a list of {least} to {most}, got {len(listed)}")
    return [_picture(f"pictures[{at}]", each, settings) for at, each in enumerate(listed)]


def _picture(where: str, value: Any, settings: FrontSettings) -> Picture:
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if set(given) != {"type", "bytes"}:
        raise Refused(400, f"{where}: must be an object with type and bytes")
    kind, size = given["type"], given["bytes"]
    if not isinstance(kind, str) or kind not in TYPES:
        rule = f"must be one of {', '.join(TYPES)}"
        raise Refused(400, f"{where}.type: {rule}, got {_shown(kind)}")
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= settings.max_bytes:
        rule = f"must be 1 to {settings.max_bytes}"
        raise Refused(400, f"{where}.bytes: {rule}, got {_shown(size)}")
    return Picture(kind, size)


def _prompts(value: Any, most: int) -> list[str]:
    listed = cast("list[Any]", value) if isinstance(value, list) else []
    if not 1 <= len(listed) <= most:
        raise Refused(400, f"prompts: must be a list of 1 to {most}, got {len(listed)}")
    for at, each in enumerate(listed):
        if not isinstance(each, str) or not 1 <= len(each.strip()) <= _LONGEST_PROMPT:
            rule = f"must be a string of 1 to {_LONGEST_PROMPT} characters"
            raise Refused(400, f"prompts[{at}]: {rule}")
    return listed


def _callback(value: Any, hosts: tuple[str, ...]) -> str:
    # urlsplit drops spaces and line ends that the client of the callback may read as something
    text = value if isinstance(value, str) and _URL.fullmatch(value) and "\\" not in value else ""
    try:
        url = urlsplit(text)
        host, user = url.hostname, url.username
    except ValueError:
        host, user, url = None, None, urlsplit("")
    if url.scheme != "https" or user is not None:
        raise Refused(400, f"callback: must be an https URL, got {_shown(value)}")
    if url.netloc not in hosts:
        raise Refused(400, f"callback: must go to {', '.join(hosts)}, got {_shown(host)}")
    return text


def _shown(value: Any) -> str:
    return repr(value)[: _SHOWN + 2]


def is_of(kind: str, head: bytes) -> bool:
    """Return whether the first twelve bytes of a file are those of its type."""
    if kind == "image/png":
        return head.startswith(b"\x89PNG\r\n\x1a\n")
    if kind == "image/jpeg":
        return head.startswith(b"\xff\xd8\xff")
    return head[:4] == b"RIFF" and head[8:12] == b"WEBP"
