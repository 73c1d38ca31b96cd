"""What runs elsewhere: providers of models that backends call, each in its documented dialect."""
