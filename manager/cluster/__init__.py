"""How the cluster and this manager are: the servers behind it, the clocks, and what there is to measure.

health.py jobs_health.py gateways.py metrics.py
                                /livez and /readyz; which jobs cannot run; whether etcd lets strangers in; the figures
                                for Prometheus
clock_guard.py clock_views.py   no edit under a wrong clock; how the clocks are
"""
