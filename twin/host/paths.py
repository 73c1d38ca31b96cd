"""Paths of a twin's files, all under one folder of the checkout."""

import os
from dataclasses import dataclass
from pathlib import Path

from twin.host.private_files import private_folder

REPOSITORY = Path(__file__).resolve().parents[2]
WORKLOADS = REPOSITORY / "workloads"
"""Programs that run in containers: the context in which their images are built."""


TWIN_VARIABLE = "GKE_INFERENCE_TWIN_DIR"


def file_above(folder: Path) -> Path | None:
    """Return the file that prevents a folder, at its path or above it, or None."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return None if nearest.is_dir() else nearest


@dataclass(frozen=True)
class TwinPaths:
    """The files and folders of one twin. Each checkout has its own twin."""

    root: Path

    @classmethod
    def default(cls) -> "TwinPaths":
        """Return the twin of this checkout, or the twin in `GKE_INFERENCE_TWIN_DIR`."""
        configured = os.environ.get(TWIN_VARIABLE)
        return cls(Path(configured).resolve() if configured else REPOSITORY / "build" / "twin")

    @property
    def cloud_db(self) -> Path:
        """State of the gcp provider (SQLite)."""
        return self.root / "cloud.db"

    @property
    def capacity_db(self) -> Path:
        """Ledger of allocated accelerators (SQLite)."""
        return self.root / "capacity.db"

    @property
    def capacity_file(self) -> Path:
        """Current capacity by location (YAML)."""
        return self.root / "capacity.yaml"

    @property
    def events_file(self) -> Path:
        """The timeline: one JSON object per line."""
        return self.root / "events.jsonl"

    @property
    def daemon_file(self) -> Path:
        """Ports and process id of the daemon (JSON)."""
        return self.root / "daemon.json"

    @property
    def settings_file(self) -> Path:
        """Settings of the twin (JSON): `speed`, the speed of its clock relative to Google's."""
        return self.root / "settings.json"

    @property
    def real_engine_file(self) -> Path:
        """Model with a replica of the real vLLM (JSON); without this file, there is none."""
        return self.root / "real-engine.json"

    @property
    def logs(self) -> Path:
        """Logs of processes outside clusters."""
        return self.root / "logs"

    @property
    def pids(self) -> Path:
        """One JSON file for each process the twin started."""
        return self.root / "pids"

    @property
    def pki(self) -> Path:
        """Keys and certificates of the twin."""
        return self.root / "pki"

    @property
    def ca_bundle(self) -> Path:
        """The twin's certificate authority and the system's: the value of `SSL_CERT_FILE`."""
        return self.pki / "bundle.pem"

    @property
    def uptime_file(self) -> Path:
        """Port of the page with the series of uptime checks (JSON); without this file, none ran."""
        return self.root / "uptime.json"

    @property
    def artifacts_file(self) -> Path:
        """Images in repositories of Artifact Registry."""
        return self.root / "artifacts.json"

    @property
    def gcs(self) -> Path:
        """Contents of the buckets."""
        return self.root / "gcs"

    @property
    def volumes(self) -> Path:
        """Data that pods write to persistent volumes: buckets, disks, claims."""
        return self.root / "volumes"

    @property
    def bin(self) -> Path:
        """Programs put first on PATH: the CLI, the twin's language host, the credential plugin."""
        return self.root / "bin"

    @property
    def pulumi_home(self) -> Path:
        """Home of the CLI, instead of the user's `~/.pulumi`."""
        return self.root / "pulumi-home"

    @property
    def official(self) -> Path:
        """Runs with `--official`: for each set of plugins, a folder with `bin` and `home`."""
        return self.root / "official"

    @property
    def clusters(self) -> Path:
        """One folder per cluster."""
        return self.root / "clusters"

    def cluster(self, location: str, name: str) -> Path:
        """Return the folder of a cluster."""
        return self.clusters / f"{location}--{name}"

    def without_programs(self, search_path: str) -> str:
        """Return a PATH without the folders that runs on this twin prepend.

        A shell that evaluated `gke-inference env` has them, but their programs are not the user's.
        """
        parts = (part for part in search_path.split(os.pathsep) if part != str(self.bin))
        return os.pathsep.join(
            part for part in parts if not Path(part).is_relative_to(self.official)
        )

    def create(self) -> None:
        """Create the folders that every part expects."""
        for folder in (self.root, self.pki):
            private_folder(folder)
        for folder in (self.logs, self.pids, self.gcs, self.bin):
            folder.mkdir(parents=True, exist_ok=True)
        self.clusters.mkdir(exist_ok=True)
