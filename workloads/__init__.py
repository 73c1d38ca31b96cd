"""What runs on the platform: model servers as components over Kubernetes objects."""
