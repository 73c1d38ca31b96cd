"""`gke-inference jobs`: the jobs of teams, their queue and state, and why they wait."""

from scripts.backend.choose import open_backend
from scripts.jobs.listing import find_jobs, job_table
from scripts.shared.clusters import close
from scripts.terminal.console import CommandError, console
from scripts.terminal.options import StackOption, check_stack
from scripts.terminal.output import Output, OutputOption, print_data
from scripts.terminal.tables import print_table
from scripts.terminal.where import OnOption, Where


def jobs(
    stack: StackOption = "local", on: OnOption = Where.TWIN, output: OutputOption = Output.TABLE
) -> None:
    """List the jobs in the queues of a deployed stack: queue, team, state, and why each waits."""
    check_stack(stack)
    with open_backend(stack, cloud=on.is_cloud) as backend:
        clusters = backend.clusters()
        if not clusters:
            rule = f"must be a stack that is up, got {stack!r}"
            raise CommandError(f"--stack: {rule}: {backend.label} has no cluster")
        found = find_jobs(clusters)
        close(clusters)
    if output.is_data:
        print_data({"stack": stack, "jobs": [one.as_json() for one in found]}, output)
        return
    if not found:
        console.print("No jobs.")
        return
    print_table(job_table(found))
