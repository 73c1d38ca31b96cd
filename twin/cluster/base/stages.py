"""How KWOK is told what to do with pods and nodes."""

from pathlib import Path

STAGES = Path(__file__).with_name("kwok_stages")


def kwok_args() -> list[str]:
    """Return the arguments of KWOK that load the twin's stages."""
    return [f"--config={file}" for file in sorted(STAGES.glob("*.yaml"))]
