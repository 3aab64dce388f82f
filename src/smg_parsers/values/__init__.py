"""Values as models write them, turned into JSON: literals, nearly-JSON arguments, and texts by a schema."""
