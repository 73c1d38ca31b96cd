"""Where weights live: buckets, disks and the volumes that mount them."""
