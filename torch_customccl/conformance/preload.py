"""Imported once by the fork server, so that ranks start fast."""

from . import registry

registry.load()
