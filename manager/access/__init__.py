"""Who may call what: deny by default.

needs.py        what each call needs, said beside its handler
guard.py        the middleware that finds out who calls, and turns away who may not
"""
