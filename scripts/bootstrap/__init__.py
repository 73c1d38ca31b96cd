"""Prepares a Google Cloud project with Pulumi, and takes it back."""
