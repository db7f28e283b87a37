"""Access to the API: deny by default.

needs.py        what each call needs, declared at its handler
passwords.py    which passwords are taken, how they are kept, whether one is right
directory.py    users, bindings, tokens and sessions as etcd has them, and what they allow; in step by a watch
sessions.py tokens.py logins.py
                what makes and ends sessions and tokens; login by a password, or by a link that works once
backoff.py      how often a user may try to log in
cookies.py      the names of cookies, and how they are set
ways.py         a token in a header, a session in a cookie
recovery.py     the first administrator, the last resort: by an operator who has a manager's configuration
local.py        system users of this machine: through the Unix socket, or the manager's own over loopback
proxy.py        a user whom a trusted proxy names, and the proof that it is the proxy
oidc/           login through an OpenID Connect provider
keep_alive.py   keeps alive the lease of a session that is used
guard.py        the middleware that identifies the caller, and refuses one without the rights

audited.py      the middleware that notes each call for the audit, and what handlers add to it
audit.py        the audit of this manager: from memory onto the disk, into the log store; its head into etcd
audit_files.py failed_calls.py
                its chain on the disk; calls without effect, counted by the minute
"""
