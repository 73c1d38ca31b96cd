"""What all controllers of a cluster share: context, watches, fields of objects."""
