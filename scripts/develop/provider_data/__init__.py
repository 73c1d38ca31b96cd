"""The constraint data of the twin's gcp provider, made from the source of Google's provider."""
