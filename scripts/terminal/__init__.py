"""What every command shares: output, options, tables, errors and exit codes."""
