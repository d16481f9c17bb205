"""wakeful side by side with other schedulers and job queues; docs/performance.md says how to read it."""
