"""What Google's provider checks, defaults and compares before it asks the API."""
