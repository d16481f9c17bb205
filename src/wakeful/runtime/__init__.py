"""What every process needs: logs, metrics, OS signals, systemd, accounts of CPU time."""
