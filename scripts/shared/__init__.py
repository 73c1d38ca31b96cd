"""Libraries that commands of several groups use; none of them is a command."""
