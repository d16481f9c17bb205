"""What wakeful does in a second, beside what the bare database does on the same machine in the same run."""
