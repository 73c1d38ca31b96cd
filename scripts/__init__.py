"""The operators' program `gke-inference`: one file a subcommand, thin over tested modules."""
