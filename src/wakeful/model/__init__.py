"""What an alarm is: its fields, its fires, its requests and its limits. Data only, no decisions."""
