"""What every call passes on its way in and out, whatever it asks.

https.py malformed.py           the port with TLS; what is no HTTP request
guards.py inputs.py             who may call, and how long; reading what came
idempotency.py                  the same call again
errors.py                       every error as JSON
"""
