"""Tokens of Microsoft Entra ID, for Azure.

chain    where a token comes from: a client's secret, workload identity, managed identity (edge)
"""
