"""Facts about shared file systems: Filestore and Managed Lustre."""
