"""Speed of a replica: roofline, published points and the correction between them."""
