"""The pipeline that makes a small voice: corpus, codec, DualAR model, export, evaluation (`python -m engine.training`).

Its packages are the extra `training`; nothing that serves speech imports it.
"""
