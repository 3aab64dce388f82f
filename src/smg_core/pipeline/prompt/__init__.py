"""From a request to a prompt: media, template, tools, formats, ids. Knows no engine."""
