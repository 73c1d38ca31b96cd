"""KWOK's stages for pods and nodes."""

from pathlib import Path

STAGES = Path(__file__).with_name("kwok_stages")


def kwok_args() -> list[str]:
    """Return the KWOK arguments that load the twin's stages."""
    return [f"--config={file}" for file in sorted(STAGES.glob("*.yaml"))]
