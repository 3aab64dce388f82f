"""What operators change and look up while a gateway runs: settings, log level, decisions, hardening."""
