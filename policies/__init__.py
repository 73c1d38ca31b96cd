"""Rules: the policy pack and the invariants, with what runs them."""
