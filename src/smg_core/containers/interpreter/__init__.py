"""Python in WebAssembly: a program for each container, which runs code within bounds.

Begin with `running`, the side of the gateway; `program` is the other one, `guest` what is inside the component, and `building`
makes that.
"""
