"""Steps of the engine, as `pulumi preview --json` tells them, made small."""


def step(operation, kind, logical, old=None, new=None, **others):
    """Return a step about a resource with these inputs before and after."""
    urn = f"urn:pulumi:dev::gke-inference::{kind}::{logical}"
    found = {"op": operation, "urn": urn, **others}
    for name, inputs in (("oldState", old), ("newState", new)):
        if inputs is not None:
            found[name] = {"urn": urn, "type": kind, "custom": True, "inputs": inputs}
    return found


def replacement(kind, logical, old, new, *reasons):
    """Return the three steps in which the engine replaces a resource."""
    return [
        step("create-replacement", kind, logical, old, new, replaceReasons=list(reasons)),
        step("replace", kind, logical, old, new, replaceReasons=list(reasons)),
        step("delete-replaced", kind, logical, old),
    ]
