"""Every decision about an alarm. Pure: values in, one `Change` out; no settings, no clock, no database, no network."""
