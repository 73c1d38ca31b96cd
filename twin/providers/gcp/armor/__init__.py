"""A stand-in for Model Armor: verdicts on texts, for its REST API and for load balancers."""
