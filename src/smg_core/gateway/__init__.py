"""`Gateway`, the class that users make, and what puts its parts together.

Begin with `gateway`, which loads the others when a gateway is made; `assembly` makes all objects of it and starts and stops them,
`in_process` is what calls it there, `launched` and `simulated` bring engines of their own.
"""
