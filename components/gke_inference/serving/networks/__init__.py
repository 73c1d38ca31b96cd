"""Networks of accelerators that pods use without claims."""
