"""Rules: the policy pack, the invariants, and their runners."""
