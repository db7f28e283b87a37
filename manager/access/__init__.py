"""Who may call what: deny by default.

needs.py        what each call needs, said beside its handler
passwords.py    which passwords are taken, how they are kept, whether one is right
guard.py        the middleware that finds out who calls, and turns away who may not
"""
