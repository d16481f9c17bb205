"""Import and export: crontabs, calendar files, JSON lines, and what other systems had."""
