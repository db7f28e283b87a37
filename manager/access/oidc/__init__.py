"""Login through an OpenID Connect provider: the provider identifies the user. It gives no rights by itself.

id_token.py     what the provider signed, checked as a whole: a name and groups, with UserInfo's if it lacks them. Pure
provider.py     what is asked of the provider: where it is, its keys, tokens for a code, UserInfo
failures.py     why a login did not succeed
login.py        one login from its start to the way back, in one browser

    GET /api/v1/login/oidc -> cookie, and off to the provider -> it comes back with a code and the state
      -> the cookie fits the state -> code and PKCE verifier for a token -> the token is checked
      -> UserInfo, where the token lacks name or groups -> a session

The cookie holds one secret of 256 bits; state, nonce and verifier are derived from it and from what the login was
begun for. So no manager keeps anything of a login that has only begun (strangers can begin as many as they like), any
manager can finish it, and nothing in the address bar or in the provider's log reveals what the cookie holds. A login
that was finished is remembered by the manager that did so until its cookie is too old; the code is good only once at
the provider.
"""
