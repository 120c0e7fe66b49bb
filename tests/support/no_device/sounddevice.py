"""Where this is on the path, the library of the same name is not installed."""

raise ModuleNotFoundError("No module named 'sounddevice'")
