"""What every component is made with: input checks, manifests, custom resource definitions."""
