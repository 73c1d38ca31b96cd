"""Shared code of all commands: output, options, tables, errors and exit codes."""
