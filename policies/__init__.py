"""The policy pack: rules, and what turns them into policies."""
