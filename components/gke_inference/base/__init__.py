"""Building blocks of components: input validation, manifests, custom resource definitions."""
