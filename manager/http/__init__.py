"""What every call passes on its way in and out, whatever it asks.

server.py https.py              the server: connections, what is no HTTP request, answers as they are taken; TLS
unix_socket.py peers.py         the Unix socket; which system user is at its other end
tcp_owner.py                    which system user made a connection over loopback, as the kernel says
guards.py inputs.py             who may call, from where, and how long; reading what came
bodies.py queries.py            what the bodies and the queries of calls hold: read and described by one definition
idempotency.py allowances.py    the same call again; how much of etcd one caller may fill
outgoing.py                     what the manager asks of others by HTTP, and where that may go
errors.py                       every error as JSON
"""
