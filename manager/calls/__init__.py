"""What every call passes on its way in and out, whatever it asks.

https.py serving.py malformed.py
                                the port with TLS; the server; what is no HTTP request
guards.py callers.py inputs.py  who may call, and how long; from where; reading what came
bodies.py                       what the bodies of calls hold: fields that are read and described as those of a job
idempotency.py allowances.py    the same call again; how much of etcd one caller may fill
crowd.py                        how many connections an address may have
encoding.py sending.py          whether an answer is packed; no more of it in memory than its client takes
errors.py                       every error as JSON
"""
