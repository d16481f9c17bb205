"""`python -m wakeful` is `wakeful`."""

from wakeful.cli import main

main()
