"""From Gateway API objects to a model of the data plane; pure."""
