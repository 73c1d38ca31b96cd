"""Prepares a Google Cloud project with Pulumi, and undoes the preparation."""
