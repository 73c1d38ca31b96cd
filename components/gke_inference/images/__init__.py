"""Engine images: repository, build, attestation and admission."""
