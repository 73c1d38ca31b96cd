"""Storage of weights: buckets, disks and the volumes that mount them."""
