"""Types of fields that every part of a stack uses."""
