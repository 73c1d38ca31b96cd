"""One page that says what a stack is: regions, capacity, models, routes, cost, start times, risks.

Every figure on it comes from the function that the command of that name prints.
"""
