"""What must agree across the rendered objects of a platform, whoever made them; one a file."""
