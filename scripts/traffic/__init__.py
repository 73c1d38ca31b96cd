"""Traffic files: what they contain, the own form of them, and recording one."""
