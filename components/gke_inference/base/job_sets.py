"""Labels that the JobSet operator sets on the pods of a set (jobset v0.12.0, jobset_types.go)."""

from typing import Final

NAME_LABEL: Final = "jobset.sigs.k8s.io/jobset-name"
"""Name of the set."""
UID_LABEL: Final = "jobset.sigs.k8s.io/jobset-uid"
"""UID of the set."""
ATTEMPT_LABEL: Final = "jobset.sigs.k8s.io/restart-attempt"
"""Number of the set's restarts when the pod was created."""
INDEX_LABEL: Final = "jobset.sigs.k8s.io/job-global-index"
"""Number of the pod's job among all jobs of the set, from 0, in the order of the specification."""
