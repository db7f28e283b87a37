"""What every call passes on its way in and out, whatever it asks.

https.py malformed.py           the port with TLS; what is no HTTP request
guards.py inputs.py             who may call, and how long; reading what came
idempotency.py                  the same call again
encoding.py                     whether an answer is packed
errors.py                       every error as JSON
"""
