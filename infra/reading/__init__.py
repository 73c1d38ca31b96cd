"""Stack files: loading, checking, editing, and their schema."""
