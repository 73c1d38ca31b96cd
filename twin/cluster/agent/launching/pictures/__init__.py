"""Image generation: the server, the training job, and the workers of personalized images."""
