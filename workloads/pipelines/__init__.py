"""A stateful pipeline in Apache Beam: events of a stream, scored by a model behind the gateway."""
