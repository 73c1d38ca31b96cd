"""Signed URLs: `signBlob` of service accounts, and the verification of their signatures."""
