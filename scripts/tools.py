"""`gke-inference tools`: build what the twin runs."""

from scripts.console import console, ensure_tools
from twin.toolchain import modules, official


def tools() -> None:
    """Build the tools that this machine lacks and list them; finished ones are kept."""
    ensure_tools()
    for module in modules().values():
        stands_in = [name for name in module.programs if official(name)]
        where = "official, on PATH" if stands_in and not module.built() else "built"
        console.print(f"{module.name:<18}{module.version:<10}{where}")
