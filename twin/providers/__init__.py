"""The Pulumi providers of the twin."""
