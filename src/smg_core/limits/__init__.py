"""Limits of requests, tokens and money: rules, whom they count together, exact counters, and what a request costs"""
