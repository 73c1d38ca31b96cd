"""What a stack needs of a Google Cloud project before its first `up`, read and never changed."""
