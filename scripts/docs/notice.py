"""The first line of a page that is generated."""

NOTICE = "<!-- Made by `make docs`; change its source, not this page. -->\n\n"
