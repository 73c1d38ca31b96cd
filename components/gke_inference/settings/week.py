"""Days of the week."""

from gke_inference.settings import Word


class Day(Word):
    """A day of the week, in the spelling of GKE's recurrence rules."""

    MONDAY = "MO"
    TUESDAY = "TU"
    WEDNESDAY = "WE"
    THURSDAY = "TH"
    FRIDAY = "FR"
    SATURDAY = "SA"
    SUNDAY = "SU"
