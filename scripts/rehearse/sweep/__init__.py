"""A sweep: which settings of a stack cost least with the objectives kept."""
