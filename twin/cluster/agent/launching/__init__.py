"""Translation of containers into processes on this machine."""
