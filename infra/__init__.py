"""The Pulumi program: reads one stack and wires components and workloads into a platform."""
