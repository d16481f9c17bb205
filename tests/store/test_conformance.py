"""Both stores keep the one contract."""

from wakeful.testing.conformance import *  # noqa: F403
