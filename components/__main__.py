"""The Pulumi plugin: every component of the package, for programs in any Pulumi language."""

from pulumi.provider.experimental import component_provider_host

from gke_inference.plugin import COMPONENTS, NAME, VERSION

if __name__ == "__main__":
    component_provider_host(components=list(COMPONENTS), name=NAME, version=VERSION)
