"""Registers FLOOR_RESOURCES resources that do nothing."""

import os

import pulumi

for number in range(int(os.environ["FLOOR_RESOURCES"])):
    pulumi.CustomResource("floor:index:Nothing", f"nothing-{number}", {"number": number})
