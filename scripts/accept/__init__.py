"""The acceptance run of a deployed platform: every promise of its stack beside a measurement."""
