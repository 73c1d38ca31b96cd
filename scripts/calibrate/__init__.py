"""Calibration of the models of engines with a running platform."""
