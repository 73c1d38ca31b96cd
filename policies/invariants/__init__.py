"""Invariants: what must agree across the rendered objects of a platform, whoever made them."""
