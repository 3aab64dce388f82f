"""Changes and reports for operators of a running gateway.

Begin with `control`, what operators change. `live_settings` says which settings can change while the gateway runs,
`config_source` reads them again, `discovery` changes the roster; `decision_lookup` and `process_table` are looked up, and
`hardening` with `deployment` checks a deployment.
"""
