"""Load tests: time to first audio and stalls against concurrency. `python -m loadtest --help`."""
