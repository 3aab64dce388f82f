"""One grammar for each kind of call, and for what else markers say: channels and citations."""
