"""Deepgram: the sockets of /v1/speak and /v2/speak, and HTTP bodies."""
