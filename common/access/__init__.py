"""Access rights, as values: subjects, roles, bindings, and what a caller may do by them.

    subjects.py     what can be given rights: users, groups, service accounts, system users and groups
    selectors.py fields.py
                    which labels a right reaches; as users write them
    rights.py       roles and bindings; what a caller's bindings allow, and why they do not
    words.py        what a binding allows, in words
    accounts.py     users and service accounts, as they are stored
    credentials.py  tokens, sessions and one-time links, as they are stored
    masks.py        values that a caller may not read
    callers.py      the caller, and the way by which they are known
    audit_chain.py audit_diff.py
                    the audit: entries chained by their hashes; a change to a job, field by field

Pure: no clock, no I/O. What all of it is for: ``docs/operate/security.md``.

A binding gives one subject one role on the jobs whose labels its selector matches. Nothing is allowed by absence: a
selector names labels or says ``all``, and a caller without bindings may do nothing.
"""
