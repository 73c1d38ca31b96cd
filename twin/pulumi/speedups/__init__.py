"""Patches of third-party SDKs that make programs start faster; each can be switched off."""
