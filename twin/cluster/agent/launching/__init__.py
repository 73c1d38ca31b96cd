"""Which process a container becomes on this machine, and with what."""
