"""The calls of the API: each reads a request, calls a use case, and spells the answer.

*_api.py                        ``/api/v1``, and ``/metrics``
previews.py                     what a preview of a schedule is asked with
system.py legacy.py             what this manager is; the six calls of the legacy API
"""
