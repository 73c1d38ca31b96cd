"""Dynamic resource allocation (DRA): devices that drivers publish and pods claim."""
