"""`models push --to`: to one folder of a bucket, for programs without a stack file."""

import re
from functools import partial

from scripts.models.places import Place, Target
from scripts.models.progress import TransferBars
from scripts.models.session import Storage, open_store, plain_errors
from scripts.models.uploads import PushOptions, push_version
from scripts.terminal.console import CommandError, console
from scripts.terminal.where import Where
from workloads.transfer.versions import Home
from workloads.transfer.work import Crew

_URI = re.compile(r"gs://([a-z0-9][-._a-z0-9]{1,61}[a-z0-9])/([^/@]+(?:/[^/@]+)*)")


def push_to(uri: str, options: PushOptions, where: Where, *, workers: int) -> None:
    """Upload a version to a folder, and make it current if none is.

    Args:
        uri: `gs://BUCKET/FOLDER`, as `weights` of a `ModelServer` without a version.
        options: Options of the push.
        where: Whose storage to use.
        workers: Number of parallel requests.

    Raises:
        CommandError: The folder is not valid, or a transfer failed.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise CommandError(f"--to: must be gs://BUCKET/FOLDER without a version, got {uri!r}")
    home = Home(match[1], match[2])
    target = Target(home.folder, None, (Place(home, ()),))
    with plain_errors(), TransferBars(console) as progress:
        opened = partial(open_store, None, on_twin=where.is_twin, workers=workers)
        push_version(Storage(opened, Crew(workers), progress), target, options)
