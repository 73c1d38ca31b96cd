"""The folders of this repository with Python code that runs."""

MEMBERS = (
    "bench",
    "components",
    "infra",
    "planner",
    "policies",
    "scripts",
    "simulator",
    "twin",
    "workloads",
)
