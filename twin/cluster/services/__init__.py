"""How programs in a cluster reach its Services by name."""
