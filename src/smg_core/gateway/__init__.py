"""`Gateway`, the class that users make, and what puts its parts together.

Begin with `gateway`; `assembly` makes all objects of a gateway and starts and stops them, `launched` and `simulated` bring
engines of their own.
"""
