"""The twin's gcp provider: as strict as Google's, with state in SQLite."""
