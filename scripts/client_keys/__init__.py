"""Keys of clients: their documents, the secret that stores them, and temporary keys."""
