"""One page about a stack: regions, capacity, models, routes, cost, start times, risks.

Every figure on it comes from the function that the command of that name prints.
"""
