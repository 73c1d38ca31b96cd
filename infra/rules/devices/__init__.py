"""Rules about devices that pods claim: chips, and interfaces of accelerator networks."""
