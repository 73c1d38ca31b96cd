"""Errors of transfers, each in one line.

TransferError
├── Refused
├── AlreadyThere
├── NoBucket
├── NoCredentials
└── Stopped
"""


class TransferError(Exception):
    """A transfer that cannot go on; one line with what to do where that is known."""


class Refused(TransferError):
    """Input that breaks a rule; nothing was changed. One line with field, rule and value."""


class AlreadyThere(TransferError):
    """An object that was to be written only where there is none, and there is one."""


class NoBucket(TransferError):
    """A bucket that does not exist."""


class NoCredentials(TransferError):
    """There are no application default credentials."""


class Stopped(TransferError):
    """Another part failed, or the user interrupted; what was sent stays for the next run."""
