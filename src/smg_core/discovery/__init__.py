"""Finds workers: in the file of workers, in DNS, in Kubernetes.

A source says which workers there should be (`base`); `reconcile` decides what is to be done about those that there are. The
edges are the sources themselves, which read files and ask servers, and `running`, which has the changes made. Above:
operation.discovery.
"""
