"""Cartesia: its socket and its HTTP bodies."""
