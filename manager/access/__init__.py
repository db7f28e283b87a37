"""Who may call what: deny by default.

needs.py        what each call needs, said beside its handler
passwords.py    which passwords are taken, how they are kept, whether one is right
directory.py    users, bindings, tokens and sessions as etcd has them, and what they allow; in step by a watch
ways.py         a token in a header, a session in a cookie
proxy.py        a user whom a trusted proxy names, and the proof that it is the proxy
oidc/           login through an OpenID Connect provider
idle.py         what keeps a session that is used alive
guard.py        the middleware that finds out who calls, and turns away who may not
"""
