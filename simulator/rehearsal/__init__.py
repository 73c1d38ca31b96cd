"""A rehearsal: a platform and its traffic in virtual time, decided by the rules of the twin."""
