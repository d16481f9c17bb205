"""`./scripts/agents`: agent platforms, each the real package in an environment of its own, set alarms and are woken."""
