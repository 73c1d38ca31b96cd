"""The Pulumi engine on the twin: its environment, language hosts and recordings."""
