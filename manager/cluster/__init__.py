"""How the cluster and this manager are: the servers behind it, the clocks, and what there is to measure.

<<<<<<< HEAD
health.py metrics.py            /livez and /readyz; the figures for Prometheus
gateways.py                     whether etcd lets in whoever asks
=======
health.py gateways.py metrics.py
                                /livez and /readyz; whether etcd lets strangers in; the figures for Prometheus
>>>>>>> 1bb5df2e7a51b00cc465f8f3a2acdb0300023a73
clock_guard.py clock_views.py   no edit under a wrong clock; how the clocks are
"""
