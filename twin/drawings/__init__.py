"""Timelines and curves as SVG."""
