"""How the cluster and this manager are: the servers behind it, the clocks, and which jobs cannot run.

health.py jobs_health.py gateways.py
                                /livez and /readyz; which jobs cannot run; whether etcd lets strangers in
clocks.py                       how the clocks are; no edit under a wrong one
unmet.py                        jobs that are due, and that no worker may take now
"""
