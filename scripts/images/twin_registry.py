"""The registries of a twin, which have what its Cloud Build pushed."""

from scripts.images.registry import Registry, RegistryError
from twin.host.paths import TwinPaths
from twin.world.built_images import digest_of


class TwinRegistry(Registry):
    """The repositories of a twin's projects. It asks no other registry."""

    def __init__(self, paths: TwinPaths) -> None:
        """Read the images of a twin."""
        super().__init__()
        self._paths = paths

    def digest(self, reference: str) -> str:
        """Return the digest of a tag.

        Raises:
            RegistryError: The twin's Cloud Build did not push it.
        """
        found = digest_of(self._paths, reference)
        if found is None:
            raise RegistryError(f"{reference}: MANIFEST_UNKNOWN: the twin did not build it")
        return found
