"""How fast a replica is: roofline, published points and the correction between them."""
