"""What GKE's admission adds to and rejects from the workloads of Autopilot clusters."""
