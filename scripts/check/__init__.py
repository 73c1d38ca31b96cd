"""Commands that check a stack, and a change to it."""
