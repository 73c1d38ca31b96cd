"""What every rule is made of: resources, findings, rules, and how rules are discovered."""
