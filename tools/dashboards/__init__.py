"""Writes the Grafana dashboards and the Prometheus rules from the metrics that the server declares.

`python -m tools.dashboards` in the root of the checkout; what it writes is in `files.py`.
"""
