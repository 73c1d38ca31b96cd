"""The intent of a served model, and its rules; free of Pulumi."""
