"""BigQuery on the twin: the tables that `capacity.yaml` lists, grants, and streaming inserts."""
