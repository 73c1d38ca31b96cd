"""A stand-in for Apigee's runtime, which load balancers call: keys of apps, products, quotas."""
