"""Networks between the nodes of a model, as its pods use them."""
