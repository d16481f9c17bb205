"""`python -m wakeful.doors.cli` is `wakeful`."""

from wakeful.doors.cli import main

main(prog_name="wakeful")
