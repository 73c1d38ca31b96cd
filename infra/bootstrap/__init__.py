"""The Pulumi program that prepares a Google Cloud project for the platform."""
