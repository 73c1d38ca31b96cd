"""Building blocks of rules: resources, findings, rules, and rule discovery."""
