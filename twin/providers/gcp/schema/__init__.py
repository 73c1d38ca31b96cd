"""The schema of each resource type of the gcp provider.

`resource(token)` joins two sources: the constraint data in `data/` (one file per resource, parsed
on first use) and the names and types of the installed `pulumi_gcp`.
"""

from twin.providers.gcp.schema.fields import Autoname, Field, Resource
from twin.providers.gcp.schema.loader import add_sdk_only, resource, source, tokens

__all__ = ["Autoname", "Field", "Resource", "add_sdk_only", "resource", "source", "tokens"]
