"""Checks, defaults and comparisons of Google's provider before it calls the API."""
