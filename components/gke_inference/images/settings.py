"""Settings of images, which stacks and the components of builds and caches share."""

from typing import Annotated, Final

from pydantic import Field

from gke_inference.settings import Settings, Word
from gke_inference.settings.fields import SecretVersion

KeepDays = Annotated[int, Field(ge=1, le=3650)]
"""Days that an image is kept."""
KEEP_DAYS: Final = 90
DEFAULT_BRANCH: Final = "main"


class VulnerabilitySeverity(Word):
    """Severity of a known vulnerability, in ascending order."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


class UpstreamCredentials(Settings):
    """Credentials for a registry that images are pulled from."""

    username: str = Field(min_length=1, max_length=200)
    """User name."""
    secret: SecretVersion
    """Secret version with the password or access token: projects/P/secrets/S/versions/V. It must
    exist before `up`."""
