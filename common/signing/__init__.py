"""Ed25519 keys in files: a private one for each manager, the public ones of all managers for each worker.

    keys.py   a key pair made, and read; a signature made, and looked at

What is signed says ``common/protocol/signatures.py``, which keys are used ``common/configuration/signatures.py``.
"""
