"""ElevenLabs: its two sockets and its HTTP bodies."""
