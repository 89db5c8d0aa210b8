"""A provider whose import fails."""

raise ImportError("libengine.so.7 is missing")
