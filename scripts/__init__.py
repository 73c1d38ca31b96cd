"""The command line `gke-inference`: one file per command, with the logic in other modules."""
