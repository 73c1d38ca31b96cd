"""GitOps delivery of models: the sync tool and its source."""
