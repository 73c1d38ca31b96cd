"""Modules shared by commands of several groups."""
