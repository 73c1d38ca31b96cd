"""Commands that estimate hardware, cost, quota and start times."""
