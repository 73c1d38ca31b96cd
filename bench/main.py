"""Entry point of `bench`: measures a subject, prints its error, exits with its code."""

from bench.command import bench
from scripts.app import unwrap_help
from scripts.main import check_twin_folder, invoke, run_and_exit


def main() -> None:
    """Run a measurement and exit with its exit code; an error is one line on standard error."""
    run_and_exit(_run)


def _run(arguments: list[str]) -> int:
    check_twin_folder()
    unwrap_help(bench)
    return invoke(bench, arguments, "bench")


if __name__ == "__main__":
    main()
