"""Checks of node pools."""
