"""How the cluster and this manager are: the servers behind it, the clocks, and what there is to measure.

health.py metrics.py            /livez and /readyz; the figures for Prometheus
gateways.py                     whether etcd lets in whoever asks
clock_guard.py clock_views.py   no edit under a wrong clock; how the clocks are
"""
