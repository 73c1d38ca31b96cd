"""Commands that operate the platform, such as up, status, ask, logs and down."""
