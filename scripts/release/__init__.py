"""The files of a release, built twice and compared: `make release`."""
