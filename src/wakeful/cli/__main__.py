"""`python -m wakeful.cli` is `wakeful`."""

from wakeful.cli import main

main(prog_name="wakeful")
