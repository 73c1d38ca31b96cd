"""Arguments for engines that run as jobs."""
