"""The documentation as a site: the pages of `docs/`, rendered by Zensical."""
