"""The clock of a program that is elsewhere: the same verbs, asked of a `wakeful serve` over HTTP."""

from wakeful.remote.address import ServerAddress as ServerAddress
from wakeful.remote.address import server_address as server_address
from wakeful.remote.clock import RemoteWakeful as RemoteWakeful
